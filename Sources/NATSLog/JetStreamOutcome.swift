// What a status and an error of JetStream mean for a record. Where the record may be in the stream
// all the same, the outcome is unknown: a wrong refusal would lose a message, a wrong repetition is
// recognised by its position.

import CNATS
import Replication

/// A status of the library with the error of the server.
struct JetStreamOutcome {
    let status: natsStatus
    /// The number of the server's error; 0 without one.
    let error: Int
    let text: String

    /// The server's errors that the library's header does not name.
    private enum ServerError {
        /// JSStreamWrongLastSequenceConstantErr: the leader knows of an append that is under way.
        static let wrongLastConstant = 10_164
        /// JSAccountResourcesExceededErr: checked before the record is proposed.
        static let accountFull = 10_002
    }

    /// Of an append that got no acknowledgement.
    var append: AppendOutcome {
        switch status {
        case NATS_ERR where error != 0: appendError
        case NATS_MAX_PAYLOAD: .refused(.tooLarge)
        // The library has sent nothing.
        case NATS_CONNECTION_AUTH_FAILED: .refused(.notPermitted)
        default: .unknown(uncertainty)
        }
    }

    private var appendError: AppendOutcome {
        switch error {
        case Int(JSStreamWrongLastSequenceErr.rawValue), ServerError.wrongLastConstant: .wrongLast
        // The number has other meanings too, such as a full disk of one server.
        case Int(JSStreamStoreFailedErr.rawValue) where text.contains("maximum bytes exceeded"):
            .full
        case ServerError.accountFull: .full
        case Int(JSStreamNotFoundErr.rawValue), Int(JSStreamNotMatchErr.rawValue):
            .refused(.absent)
        case Int(JSStreamMessageExceedsMaximumErr.rawValue): .refused(.tooLarge)
        default: .unknown(uncertainty)
        }
    }

    /// Of a read that got no record.
    var read: ReadOutcome {
        if status == NATS_NOT_FOUND { return .nothing }
        if error == Int(JSNoMessageFoundErr.rawValue) { return .nothing }
        return .unknown(uncertainty)
    }

    var uncertainty: LogUncertainty {
        switch error {
        case 0: break
        // The library's name for a request without a responder.
        case Int(JSNotEnabledErr.rawValue): return .unreachable
        case Int(JSClusterNotAvailErr.rawValue), Int(JSClusterNotLeaderErr.rawValue):
            return .leaderless
        default: return .failed(code: error)
        }
        switch status {
        case NATS_TIMEOUT: return .timeout
        case NATS_NO_RESPONDERS, NATS_CONNECTION_CLOSED, NATS_CONNECTION_DISCONNECTED,
            NATS_NO_SERVER, NATS_NOT_YET_CONNECTED, NATS_STALE_CONNECTION, NATS_IO_ERROR,
            // The message was not sent: the library is connecting.
            NATS_INSUFFICIENT_BUFFER:
            return .unreachable
        default: return .failed(code: Int(status.rawValue))
        }
    }
}
