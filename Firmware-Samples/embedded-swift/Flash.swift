// Flash as bytes, and checksums over what stands there. The board holds us to its rules.

import Board

enum Flash {
    static let sectorByteCount = UInt32(BOARD_FLASH_SECTOR)

    static func read(_ offset: UInt32, into bytes: UnsafeMutableRawBufferPointer) {
        board_flash_read(
            offset, bytes.bindMemory(to: UInt8.self).baseAddress, UInt32(bytes.count))
    }

    /// `bytes` are a multiple of the unit.
    static func program(_ offset: UInt32, _ bytes: UnsafeRawBufferPointer) {
        board_flash_program(
            offset, bytes.bindMemory(to: UInt8.self).baseAddress, UInt32(bytes.count))
    }

    /// Whether a range is as an erasure leaves it.
    static func isErased(_ offset: UInt32, _ byteCount: UInt32) -> Bool {
        var byte: UInt8 = 0
        for index in 0..<byteCount {
            board_flash_read(offset + index, &byte, 1)
            if byte != 0xFF { return false }
        }
        return true
    }

    /// CRC-32.
    static func check(_ bytes: UnsafeRawBufferPointer, continuing check: UInt32 = 0) -> UInt32 {
        mrt_crc32(check, bytes.bindMemory(to: UInt8.self).baseAddress, UInt32(bytes.count))
    }
}
