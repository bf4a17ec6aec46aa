//! Where a run takes place: the machine, its disk, the broker.
