//! A null broker: it acknowledges at once and keeps what it was sent in memory for as long as there is room.
