// Groups and their members. A group's messages go to its audience, which is part of the routing,
// and to the offline queues of members without a session.
//
// It knows users and audiences by their index. A user lists its memberships.
//
// Invariants: a group ends with its last member; members are in the order of their ids; a
// membership counts the sessions of its user that subscribe to the address of the group; a member
// that waits knows its place among those of the group that wait.

import Primitives

/// The groups of all apps.
struct GroupTable: ~Copyable {
    var groups = Slab<Group>()
    var memberships = Slab<Membership>()
}
