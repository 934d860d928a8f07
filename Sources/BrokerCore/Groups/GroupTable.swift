// Groups and their members. A group's messages go to its audience, which is part of the routing,
// and to the offline queues of members without a session.

import Primitives

/// The groups of all apps.
struct GroupTable: ~Copyable {
    var groups = Slab<Group>()
    var memberships = Slab<Membership>()
}
