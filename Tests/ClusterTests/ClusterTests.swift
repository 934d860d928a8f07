// A cluster: real nodes on real NATS servers, on this machine.

import Testing

/// One cluster at a time: six processes share two processors with other tests.
@Suite(.serialized) struct ClusterTests {}
