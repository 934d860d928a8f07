// The context of one call of the core. An event handler takes the event, its connection, and this.

import Primitives

/// The input, the time and the effects of one call of the core. The bytes and the effects belong to
/// the caller.
struct Step: ~Copyable {
    /// The effects of all event loops, by loop. The first property, because Swift 6.3 crashes with
    /// `-O -sanitize=thread` if the first word of a `let` whose subscript is written is an integer.
    let effects: EffectsReference
    /// The bytes to which the ranges of an event refer; empty if the call is not an event.
    let bytes: UnsafeRawBufferPointer
    let moment: Moment

    init(
        bytes: UnsafeRawBufferPointer = UnsafeRawBufferPointer(start: nil, count: 0),
        at moment: Moment, effects: borrowing Effects
    ) {
        self.bytes = bytes
        self.moment = moment
        self.effects = effects.reference
    }

    /// A step within a step, for input that was stored by an earlier event.
    init(bytes: UnsafeRawBufferPointer, within step: borrowing Step) {
        self.bytes = bytes
        moment = step.moment
        effects = step.effects
    }
}
