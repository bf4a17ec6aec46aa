//! What a run is held to: `rate>=1000000`, `produce_p99<=10ms`.
