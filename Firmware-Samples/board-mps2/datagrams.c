// The network card of QEMU's mps2-an386, a LAN9118 (Microchip DS00002266), and the two protocols
// that bring a datagram to the node: ARP (RFC 826), which it answers, and UDP over IPv4 (RFC 768,
// 791).
// Every other frame is dropped. No checksum is verified: the card verifies that of the frame, and a
// wake-up datagram is proven (port/wake/wake.h).

#include "datagrams.h"

#include <stdbool.h>
#include <string.h>

#define REGISTER(address) (*(volatile uint32_t *)(address))
#define CARD(offset) REGISTER(0x40200000u + (offset))
#define RX_DATA CARD(0x00)
#define TX_DATA CARD(0x20)
#define RX_STATUS CARD(0x40)
#define TX_STATUS CARD(0x48)
#define INTERRUPT_CONFIGURATION CARD(0x54)
#define INTERRUPT_STATUS CARD(0x58)
#define INTERRUPT_ENABLE CARD(0x5C)
#define FIFO_LEVELS CARD(0x68)
#define TX_CONFIGURATION CARD(0x70)
#define RX_INFORMATION CARD(0x7C)
#define MAC_COMMAND CARD(0xA4)
#define MAC_DATA CARD(0xA8)

enum {
    // Interrupts: enabled, active high, push-pull; one per frame in the status queue.
    INTERRUPT_OUTPUT = 0x111,
    INTERRUPT_RX_STATUS = 1 << 3,
    TX_ON = 1 << 1,
    TX_WHOLE_FRAME = 1 << 13 | 1 << 12,
    MAC_CONTROL = 1,
    MAC_ADDRESS_HIGH = 2,
    MAC_ADDRESS_LOW = 3,
    MAC_RECEIVES = 1 << 2,
    MAC_SENDS = 1 << 3,
    CARD_IRQ = 13
};
#define MAC_WRITE 0x80000000u

#define NVIC_ENABLE REGISTER(0xE000E100u)
#define NVIC_DISABLE REGISTER(0xE000E180u)
#define NVIC_CLEAR_PENDING REGISTER(0xE000E280u)
#define SYSTICK_CONTROL REGISTER(0xE000E010u)
#define ICSR REGISTER(0xE000ED04u)
enum { SYSTICK_ON = 7, SYSTICK_OFF = 0, ICSR_CLEAR_SYSTICK = 1 << 25 };

// A frame of Ethernet without its check sequence.
enum { FRAME_MAXIMUM = 1514, MAC_BYTES = 6, ETHERNET_HEADER = 14, ARP_BYTES = 28 };
static uint8_t frame[FRAME_MAXIMUM];

static const uint8_t own_mac[MAC_BYTES] = {0x52, 0x54, 0x00, 0x12, 0x34, 0x56};
static const uint8_t own_address[4] = {10, 0, 2, 15};
static uint16_t own_port;

static void write_mac(uint32_t place, uint32_t value)
{
    MAC_DATA = value;
    MAC_COMMAND = MAC_WRITE | place;
}

void board_datagrams_start(uint16_t port)
{
    own_port = port;
    write_mac(MAC_ADDRESS_LOW, 0x12005452u);
    write_mac(MAC_ADDRESS_HIGH, 0x5634u);
    TX_CONFIGURATION = TX_ON;
    FIFO_LEVELS = 0;
    INTERRUPT_CONFIGURATION = INTERRUPT_OUTPUT;
    INTERRUPT_ENABLE = INTERRUPT_RX_STATUS;
    write_mac(MAC_CONTROL, MAC_RECEIVES | MAC_SENDS);
}

static bool has_frame(void)
{
    return (RX_INFORMATION >> 16 & 0xFF) != 0;
}

// Takes the next frame from the card, and returns its bytes. A longer one is cut off.
static uint32_t read_frame(void)
{
    uint32_t count = RX_STATUS >> 16 & 0x3FFF;
    for (uint32_t i = 0; i < count; i += 4) {
        uint32_t word = RX_DATA;
        for (uint32_t j = 0; j < 4 && i + j < sizeof frame; j++) {
            frame[i + j] = (uint8_t)(word >> 8 * j);
        }
    }
    INTERRUPT_STATUS = INTERRUPT_RX_STATUS;
    // The frame ends with its check sequence.
    count = count < 4 ? 0 : count - 4;
    return count < sizeof frame ? count : sizeof frame;
}

static void write_frame(uint32_t count)
{
    TX_DATA = TX_WHOLE_FRAME | count;
    TX_DATA = count;
    for (uint32_t i = 0; i < count; i += 4) {
        uint32_t word;
        memcpy(&word, frame + i, sizeof word);
        TX_DATA = word;
    }
    (void)TX_STATUS;
}

static uint32_t number_at(uint32_t offset)
{
    return (uint32_t)frame[offset] << 8 | frame[offset + 1];
}

// Answers an ARP request for this node's address; the frame becomes the reply.
static void answer_arp(void)
{
    static const uint8_t request[] = {0, 1, 8, 0, MAC_BYTES, 4, 0, 1};
    uint8_t *arp = frame + ETHERNET_HEADER;
    if (memcmp(arp, request, sizeof request) != 0
        || memcmp(arp + 24, own_address, sizeof own_address) != 0) {
        return;
    }
    arp[7] = 2;
    // The sender of the request is the target of the reply: both of its addresses are copied.
    memmove(arp + 18, arp + 8, MAC_BYTES + sizeof own_address);
    memcpy(arp + 8, own_mac, MAC_BYTES);
    memcpy(arp + 14, own_address, sizeof own_address);
    memcpy(frame, arp + 18, MAC_BYTES);
    memcpy(frame + MAC_BYTES, own_mac, MAC_BYTES);
    write_frame(ETHERNET_HEADER + ARP_BYTES);
}

uint32_t board_datagram_read(uint8_t *bytes, uint32_t room)
{
    enum { IP = ETHERNET_HEADER, UDP = IP + 20, DATA = UDP + 8 };
    enum { TYPE_IP = 0x0800, TYPE_ARP = 0x0806 };
    while (has_frame()) {
        uint32_t count = read_frame();
        if (count < ETHERNET_HEADER + ARP_BYTES) {
            continue;
        }
        if (number_at(12) == TYPE_ARP) {
            answer_arp();
        }
        // No options, no fragment, UDP, to this address and port.
        if (number_at(12) != TYPE_IP || frame[IP] != 0x45 || (number_at(IP + 6) & 0x3FFF) != 0
            || frame[IP + 9] != 17 || memcmp(frame + IP + 16, own_address, sizeof own_address) != 0
            || number_at(UDP + 2) != own_port) {
            continue;
        }
        uint32_t length = number_at(UDP + 4);
        if (length < 8 || length > count - UDP) {
            continue;
        }
        length -= 8;
        length = length < room ? length : room;
        memcpy(bytes, frame + DATA, length);
        if (length > 0) {
            return length;
        }
    }
    return 0;
}

uint32_t board_sleep_until_frame(void)
{
    uint32_t woken = 0;
    // As in board_sleep: interrupts stay masked, and end the sleep nevertheless. Only the card's is
    // enabled, and it never runs: its line stays up while there is a frame.
    __asm__ volatile("cpsid i" ::: "memory");
    uint32_t enabled = NVIC_ENABLE;
    NVIC_DISABLE = enabled;
    SYSTICK_CONTROL = SYSTICK_OFF;
    ICSR = ICSR_CLEAR_SYSTICK;
    NVIC_ENABLE = 1u << CARD_IRQ;
    for (;;) {
        // No handler takes the interrupt. A frame that arrives after this raises it again.
        NVIC_CLEAR_PENDING = 1u << CARD_IRQ;
        if (has_frame()) {
            break;
        }
        __asm__ volatile("wfi" ::: "memory");
        woken++;
    }
    NVIC_DISABLE = 1u << CARD_IRQ;
    SYSTICK_CONTROL = SYSTICK_ON;
    NVIC_ENABLE = enabled;
    __asm__ volatile("cpsie i" ::: "memory");
    return woken;
}
