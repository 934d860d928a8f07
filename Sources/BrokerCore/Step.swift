// What the core works with during one call. An event handler takes the event, the connection it
// came from, and this.

import Primitives

/// The input, the time and the effects of one call of the core. It ends with the call: the bytes
/// and the effects belong to the caller.
struct Step: ~Copyable {
    /// What the ranges of an event point into; empty where the call is no event.
    let bytes: UnsafeRawBufferPointer
    let moment: Moment
    /// The effects of all event loops, by loop.
    let effects: EffectsReference

    init(
        bytes: UnsafeRawBufferPointer = UnsafeRawBufferPointer(start: nil, count: 0),
        at moment: Moment, effects: borrowing Effects
    ) {
        self.bytes = bytes
        self.moment = moment
        self.effects = effects.reference
    }

    /// A step within a step, for input that was kept from an earlier event.
    init(bytes: UnsafeRawBufferPointer, within step: borrowing Step) {
        self.bytes = bytes
        moment = step.moment
        effects = step.effects
    }
}
