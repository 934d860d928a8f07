// From reset to main: the vector table, initialised data, the floating-point unit off. Both samples
// start here.

#include <stdint.h>

extern uint32_t data_start, data_end, data_source, bss_start, bss_end;
// A place, and no function: declared as one, because the first vector is one in C.
void stack_top(void);

int main(void);
void board_tick(void);
void board_received(void);
void reset(void);

void reset(void)
{
    uint32_t *source = &data_source;
    for (uint32_t *target = &data_start; target < &data_end;) {
        *target++ = *source++;
    }
    for (uint32_t *target = &bss_start; target < &bss_end;) {
        *target++ = 0;
    }
    main();
    for (;;) {
    }
}

static void stop(void)
{
    for (;;) {
        __asm__ volatile("bkpt 0");
    }
}

typedef void (*vector)(void);

// Armv7-M, section B1.5.3: the stack, 15 exceptions of the processor, then the board's interrupts.
__attribute__((section(".vectors"), used)) static const vector vectors[] = {
    stack_top, reset, stop, stop, stop, stop, stop, 0, 0, 0, 0, stop, stop, 0, stop,
    board_tick, board_received};
