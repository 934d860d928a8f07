// The board mps2-an386 in QEMU. Its flash is a file of the emulator that survives a "loss of
// power": QEMU backs the board's 16 MiB of PSRAM with it, and the functions here enforce the rules
// of flash.

#include "board.h"

#include <string.h>

// MARK: Clock and sleep

enum { TICK_MS = 5, CLOCK_HZ = 25000000 };

#define REGISTER(address) (*(volatile uint32_t *)(address))
#define SYSTICK_CONTROL REGISTER(0xE000E010u)
#define SYSTICK_RELOAD REGISTER(0xE000E014u)
#define SYSTICK_VALUE REGISTER(0xE000E018u)
#define NVIC_ENABLE REGISTER(0xE000E100u)

// The tick only ends a sleep. Time is read from a timer that counts down in hardware (CMSDK APB
// timer, Arm DDI 0479): an emulator that gets no processor time loses ticks, but no time.
#define TIMER_CONTROL REGISTER(0x40000000u)
#define TIMER_VALUE REGISTER(0x40000004u)
#define TIMER_RELOAD REGISTER(0x40000008u)

void board_tick(void);
void board_tick(void)
{
}

uint32_t board_milliseconds(void)
{
    static uint32_t last = UINT32_MAX;
    static uint32_t rest;
    static uint32_t milliseconds;
    uint32_t value = TIMER_VALUE;
    // The counter wraps after 171 s; the program asks every few milliseconds.
    rest += last - value;
    last = value;
    milliseconds += rest / (CLOCK_HZ / 1000);
    rest %= CLOCK_HZ / 1000;
    return milliseconds;
}

// MARK: UARTs (CMSDK APB UART, Arm DDI 0479)

typedef struct uart {
    volatile uint32_t data;
    volatile uint32_t state;
    volatile uint32_t control;
    volatile uint32_t interrupt;
    volatile uint32_t divisor;
} uart;

#define LINE ((uart *)0x40004000u)
#define LOG ((uart *)0x40005000u)

enum { STATE_TX_FULL = 1, STATE_RX_FULL = 2, CONTROL_TX = 1, CONTROL_RX = 2, CONTROL_RX_IRQ = 8 };
enum { LINE_RX_IRQ = 0, INTERRUPT_RX = 2 };

// Received bytes that were not read. Filled by the interrupt, emptied by the program.
enum { ROOM = 1024 };
static uint8_t arrived[ROOM];
static volatile uint32_t arrived_end;
static volatile uint32_t arrived_start;

void board_received(void);
void board_received(void)
{
    // Before the check: a byte that arrives after it raises another interrupt.
    LINE->interrupt = INTERRUPT_RX;
    while ((LINE->state & STATE_RX_FULL) != 0) {
        uint8_t byte = (uint8_t)LINE->data;
        // Bytes without room are lost, as on any UART; the counters of the frames show it.
        if (arrived_end - arrived_start < ROOM) {
            arrived[arrived_end % ROOM] = byte;
            arrived_end++;
        }
    }
}

uint32_t board_read(uint8_t *bytes, uint32_t count)
{
    uint32_t read = 0;
    while (read < count && arrived_start != arrived_end) {
        bytes[read++] = arrived[arrived_start % ROOM];
        arrived_start++;
    }
    return read;
}

uint32_t board_write(const uint8_t *bytes, uint32_t count)
{
    uint32_t written = 0;
    while (written < count && (LINE->state & STATE_TX_FULL) == 0) {
        LINE->data = bytes[written++];
    }
    return written;
}

void board_log(const uint8_t *text, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        while ((LOG->state & STATE_TX_FULL) != 0) {
        }
        LOG->data = text[i];
    }
}

void board_start(void)
{
    // 115,200 baud; the emulator does not care.
    LINE->divisor = CLOCK_HZ / 115200;
    LOG->divisor = CLOCK_HZ / 115200;
    LINE->control = CONTROL_TX | CONTROL_RX | CONTROL_RX_IRQ;
    LOG->control = CONTROL_TX;
    NVIC_ENABLE = 1u << LINE_RX_IRQ;
    TIMER_RELOAD = UINT32_MAX;
    TIMER_VALUE = UINT32_MAX;
    TIMER_CONTROL = 1;
    SYSTICK_RELOAD = CLOCK_HZ / 1000 * TICK_MS - 1;
    SYSTICK_VALUE = 0;
    SYSTICK_CONTROL = 7;
}

void board_sleep(void)
{
    // Interrupts stay masked between the check and the sleep, which they end nevertheless: no byte
    // that arrives in between is missed.
    __asm__ volatile("cpsid i" ::: "memory");
    if (arrived_start == arrived_end) {
        __asm__ volatile("wfi" ::: "memory");
    }
    __asm__ volatile("cpsie i" ::: "memory");
}

// MARK: Flash

#define FLASH ((volatile uint8_t *)0x21000000u)

static void require(bool is_kept)
{
    if (!is_kept) {
        static const char text[] = "flash: a rule is broken\n";
        board_log((const uint8_t *)text, sizeof text - 1);
        for (;;) {
            __asm__ volatile("bkpt 0");
        }
    }
}

static void require_range(uint32_t offset, uint32_t count)
{
    uint32_t size = (uint32_t)BOARD_FLASH_SECTORS * BOARD_FLASH_SECTOR;
    require(offset <= size && count <= size - offset);
}

void board_flash_read(uint32_t offset, uint8_t *bytes, uint32_t count)
{
    require_range(offset, count);
    for (uint32_t i = 0; i < count; i++) {
        bytes[i] = FLASH[offset + i];
    }
}

void board_flash_erase(uint32_t offset)
{
    require_range(offset, BOARD_FLASH_SECTOR);
    require(offset % BOARD_FLASH_SECTOR == 0);
    for (uint32_t i = 0; i < BOARD_FLASH_SECTOR; i++) {
        FLASH[offset + i] = 0xFF;
    }
}

void board_flash_program(uint32_t offset, const uint8_t *bytes, uint32_t count)
{
    require_range(offset, count);
    require(offset % BOARD_FLASH_UNIT == 0 && count % BOARD_FLASH_UNIT == 0);
    for (uint32_t i = 0; i < count; i++) {
        require(FLASH[offset + i] == 0xFF);
        FLASH[offset + i] = bytes[i];
    }
}

uint64_t board_factory_seed(void)
{
    uint64_t seed = 0;
    uint8_t bytes[sizeof seed];
    board_flash_read(0, bytes, sizeof bytes);
    memcpy(&seed, bytes, sizeof seed);
    return seed;
}
