package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Requests as the wire has them, sent past everything that a client adds: what a broker answers to what no
// well-behaved client sends, or sends only when something went wrong before. The codes are those of Kafka 4.4.

var ctx = context.Background()

// ask sends a request to the one broker as it is, without the routing and the retries of the client.
func ask[R kmsg.Response](request kmsg.Request, _ R) R {
	node := must(admin.ListBrokers(ctx))[0].NodeID
	return must(base.Broker(int(node)).Request(ctx, request)).(R)
}

func topicID(topic string) [16]byte { return must(admin.ListTopics(ctx, topic))[topic].ID }

func expectErrorCode(code int16, wanted *kerr.Error, what string) {
	got := kerr.ErrorForCode(code)
	if wanted == nil && got != nil {
		panic(fmt.Errorf("%s: wanted success, got %v", what, got))
	}
	if wanted != nil {
		expectCode(got, wanted, what)
	}
}

// batchOf is a valid batch of plain records; a check then spoils what it wants to.
func batchOf(records int, producer int64, epoch int16, sequence int32) kmsg.RecordBatch {
	batch := kmsg.RecordBatch{
		PartitionLeaderEpoch: -1, Magic: 2, LastOffsetDelta: int32(records - 1), FirstTimestamp: stamp(0).UnixMilli(),
		MaxTimestamp: stamp(0).UnixMilli(), ProducerID: producer, ProducerEpoch: epoch, FirstSequence: sequence,
		NumRecords: int32(records),
	}
	for i := range records {
		record := kmsg.Record{OffsetDelta: int32(i), Value: []byte("value")}
		record.Length = int32(len(record.AppendTo(nil)) - 1) // its own length, as zero, took one byte
		batch.Records = record.AppendTo(batch.Records)
	}
	return batch
}

// encoded fills in the length and the checksum.
func encoded(batch kmsg.RecordBatch) []byte {
	bytes := batch.AppendTo(nil)
	binary.BigEndian.PutUint32(bytes[8:], uint32(len(bytes)-12))
	binary.BigEndian.PutUint32(bytes[17:], crc32.Checksum(bytes[21:], crc32.MakeTable(crc32.Castagnoli)))
	return bytes
}

func rawProduce(topic string, id [16]byte, partition int32, records []byte) (int16, int64) {
	request := kmsg.NewPtrProduceRequest()
	request.TimeoutMillis = 10_000 // acks are the client's, so all
	part := kmsg.ProduceRequestTopicPartition{Partition: partition, Records: records}
	request.Topics = []kmsg.ProduceRequestTopic{
		{Topic: topic, TopicID: id, Partitions: []kmsg.ProduceRequestTopicPartition{part}},
	}
	answer := ask(request, &kmsg.ProduceResponse{}).Topics[0].Partitions[0]
	return answer.ErrorCode, answer.BaseOffset
}

func newProducer() int64 {
	request := kmsg.NewPtrInitProducerIDRequest()
	request.TransactionTimeoutMillis = 60_000
	answer := ask(request, &kmsg.InitProducerIDResponse{})
	expectErrorCode(answer.ErrorCode, nil, "a new producer id")
	return answer.ProducerID
}

func rawSequences() error {
	topic := create("sequences", 1, nil)
	id, gap, fenced := topicID(topic), kerr.OutOfOrderSequenceNumber, kerr.InvalidProducerEpoch
	a, b, c, d := newProducer(), newProducer(), newProducer(), newProducer()
	for i, s := range []struct {
		what     string
		producer int64
		epoch    int16
		sequence int32
		records  int
		wanted   *kerr.Error
		offset   int64
	}{
		{"the first batch", a, 0, 0, 3, nil, 0},
		{"the second", a, 0, 3, 3, nil, 3},
		{"the second again", a, 0, 3, 3, nil, 3},
		{"the first again", a, 0, 0, 3, nil, 0},
		{"a part of the second", a, 0, 3, 2, gap, -1},
		{"a gap", a, 0, 10, 3, gap, -1},
		{"third", a, 0, 6, 3, nil, 6},
		{"fourth", a, 0, 9, 3, nil, 9},
		{"fifth", a, 0, 12, 3, nil, 12},
		{"sixth", a, 0, 15, 3, nil, 15},
		{"the second, fifth from the end", a, 0, 3, 3, nil, 3},
		{"the first, no longer remembered", a, 0, 0, 3, gap, -1},
		{"a new epoch not at 0", a, 1, 18, 3, gap, -1},
		{"a new epoch", a, 1, 0, 3, nil, 18},
		{"the old epoch", a, 0, 18, 3, fenced, -1},
		{"a producer of which nothing is known, not at 0", b, 0, 5, 3, nil, 21},
		{"to the end of the sequences", c, 0, 1<<31 - 2, 2, nil, 24},
		{"and on from 0", c, 0, 0, 2, nil, 26},
		{"across the end of the sequences", d, 0, 1<<31 - 2, 4, nil, 28},
		{"and on from 2", d, 0, 2, 1, nil, 32},
		{"across the end again", d, 0, 1<<31 - 2, 4, nil, 28},
	} {
		code, offset := rawProduce(topic, id, 0, encoded(batchOf(s.records, s.producer, s.epoch, s.sequence)))
		what := fmt.Sprintf("%d, %s", i, s.what)
		expectErrorCode(code, s.wanted, what)
		expect(offset, s.offset, what+": base offset")
	}
	return nil
}

func rawBatches() error {
	topic := create("batches", 1, nil)
	id, producer := topicID(topic), newProducer()
	spoilt := func(spoil func(batch *kmsg.RecordBatch)) []byte {
		batch := batchOf(3, -1, -1, -1)
		spoil(&batch)
		return encoded(batch)
	}
	good := encoded(batchOf(3, -1, -1, -1))
	rot := append([]byte{}, good...)
	rot[len(rot)-1] ^= 1
	future := time.Now().Add(2 * time.Hour).UnixMilli()
	for _, s := range []struct {
		what    string
		records []byte
		wanted  *kerr.Error
	}{
		{"a flipped bit", rot, kerr.CorruptMessage},
		{"two batches", append(append([]byte{}, good...), good...), kerr.InvalidRecord},
		{"no batch", []byte{}, kerr.InvalidRecord},
		{"a cut batch", good[:70], kerr.InvalidRecord},
		{"magic 1", spoilt(func(b *kmsg.RecordBatch) { b.Magic = 1 }), kerr.InvalidRecord},
		{"more offsets than records", spoilt(func(b *kmsg.RecordBatch) { b.LastOffsetDelta = 7 }), kerr.InvalidRecord},
		{"less than one offset", spoilt(func(b *kmsg.RecordBatch) { b.LastOffsetDelta = -1 }), kerr.InvalidRecord},
		{"no record", spoilt(func(b *kmsg.RecordBatch) { b.NumRecords, b.Records = 0, nil }), kerr.InvalidRecord},
		{"a control batch", spoilt(func(b *kmsg.RecordBatch) { b.Attributes = 0x20 }), kerr.InvalidRecord},
		{"a base offset", spoilt(func(b *kmsg.RecordBatch) { b.FirstOffset = 77 }), kerr.InvalidRecord},
		{"a timestamp two hours ahead", spoilt(func(b *kmsg.RecordBatch) {
			b.FirstTimestamp, b.MaxTimestamp = future, future
		}), kerr.InvalidTimestamp},
		{"a producer without a sequence", encoded(batchOf(3, producer, 0, -1)), kerr.InvalidRecord},
	} {
		code, offset := rawProduce(topic, id, 0, s.records)
		expectErrorCode(code, s.wanted, s.what)
		expect(offset, int64(-1), s.what+": base offset")
	}
	for what, records := range map[string][]byte{ // Kafka has odd codes for these; any will do
		"magic 3":             spoilt(func(b *kmsg.RecordBatch) { b.Magic = 3 }),
		"a codec that is not": spoilt(func(b *kmsg.RecordBatch) { b.Attributes = 5 }),
		"a transactional batch without a transactional id": spoilt(func(b *kmsg.RecordBatch) { b.Attributes = 0x10 }),
	} {
		code, _ := rawProduce(topic, id, 0, records)
		expect(code != 0, true, what+" is refused")
	}
	for _, s := range []struct {
		what      string
		partition int32
		id        [16]byte
		wanted    *kerr.Error
	}{
		{"an unknown partition", 9, id, kerr.UnknownTopicOrPartition},
		{"partition -1", -1, id, kerr.UnknownTopicOrPartition},
		{"an unknown topic id", 0, [16]byte{1, 2, 3}, kerr.UnknownTopicID},
	} {
		code, _ := rawProduce(topic, s.id, s.partition, good)
		expectErrorCode(code, s.wanted, s.what)
	}
	code, offset := rawProduce(topic, id, 0, good)
	expectErrorCode(code, nil, "a good batch")
	expect(offset, int64(0), "its offset: nothing refused was kept")
	return nil
}

// fetchRequest asks for partition 0 from an offset, outside of any session.
func fetchRequest(topic string, offset int64) (*kmsg.FetchRequest, *kmsg.FetchRequestTopicPartition) {
	request := kmsg.NewPtrFetchRequest()
	request.MaxWaitMillis, request.MinBytes, request.MaxBytes, request.SessionEpoch = 100, 1, 1<<20, -1
	part := kmsg.NewFetchRequestTopicPartition()
	part.FetchOffset, part.PartitionMaxBytes = offset, 1<<20
	request.Topics = []kmsg.FetchRequestTopic{
		{Topic: topic, TopicID: topicID(topic), Partitions: []kmsg.FetchRequestTopicPartition{part}},
	}
	return request, &request.Topics[0].Partitions[0]
}

func fetchFrom(topic string, offset int64) kmsg.FetchResponseTopicPartition {
	request, _ := fetchRequest(topic, offset)
	return ask(request, &kmsg.FetchResponse{}).Topics[0].Partitions[0]
}

func rawFetches() error {
	topic := create("fetches", 1, nil)
	id := topicID(topic)
	one := encoded(batchOf(3, -1, -1, -1))
	for range 4 {
		rawProduce(topic, id, 0, one)
	}
	type part = kmsg.FetchRequestTopicPartition
	for _, s := range []struct {
		what   string
		change func(request *kmsg.FetchRequest, p *part)
		wanted *kerr.Error
		bytes  int
	}{
		{"all", func(*kmsg.FetchRequest, *part) {}, nil, 4 * len(one)},
		{"read committed", func(r *kmsg.FetchRequest, _ *part) { r.IsolationLevel = 1 }, nil, 4 * len(one)},
		{"the epoch of the leader", func(_ *kmsg.FetchRequest, p *part) { p.CurrentLeaderEpoch = 0 }, nil, 4 * len(one)},
		{"at most one byte", func(r *kmsg.FetchRequest, _ *part) { r.MaxBytes = 1 }, nil, len(one)},
		{"at most one byte a partition", func(_ *kmsg.FetchRequest, p *part) { p.PartitionMaxBytes = 1 }, nil, len(one)},
		{"at most no bytes", func(r *kmsg.FetchRequest, p *part) { r.MaxBytes, p.PartitionMaxBytes = 0, 0 }, nil, len(one)},
		{"the end", func(_ *kmsg.FetchRequest, p *part) { p.FetchOffset = 12 }, nil, 0},
		{"beyond the end", func(_ *kmsg.FetchRequest, p *part) { p.FetchOffset = 13 }, kerr.OffsetOutOfRange, 0},
		{"before the beginning", func(_ *kmsg.FetchRequest, p *part) { p.FetchOffset = -1 }, kerr.OffsetOutOfRange, 0},
		{"an unknown partition", func(_ *kmsg.FetchRequest, p *part) { p.Partition = 9 }, kerr.UnknownTopicOrPartition, 0},
		{"an epoch to come", func(_ *kmsg.FetchRequest, p *part) { p.CurrentLeaderEpoch = 5 }, kerr.UnknownLeaderEpoch, 0},
		{"an unknown topic id", func(r *kmsg.FetchRequest, _ *part) { r.Topics[0].TopicID = [16]byte{9} }, kerr.UnknownTopicID, 0},
	} {
		request, p := fetchRequest(topic, 0)
		s.change(request, p)
		answer := ask(request, &kmsg.FetchResponse{})
		expectErrorCode(answer.ErrorCode, nil, s.what+": the whole")
		expectErrorCode(answer.Topics[0].Partitions[0].ErrorCode, s.wanted, s.what)
		expect(len(answer.Topics[0].Partitions[0].RecordBatches), s.bytes, s.what+": bytes")
	}
	return fetchSessions(topic)
}

func fetchSessions(topic string) error {
	request, _ := fetchRequest(topic, 0)
	request.SessionID, request.SessionEpoch = 12345, 1
	expectErrorCode(ask(request, &kmsg.FetchResponse{}).ErrorCode, kerr.FetchSessionIDNotFound, "an unknown session")
	request.SessionID, request.SessionEpoch = 0, 0
	answer := ask(request, &kmsg.FetchResponse{})
	expect(answer.SessionID != 0, true, "a session was made")
	request.SessionID, request.SessionEpoch = answer.SessionID, 7
	expectErrorCode(ask(request, &kmsg.FetchResponse{}).ErrorCode, kerr.InvalidFetchSessionEpoch, "a wrong session epoch")
	request.SessionEpoch, request.Topics = 1, nil
	again := ask(request, &kmsg.FetchResponse{})
	expectErrorCode(again.ErrorCode, nil, "the session's second fetch")
	expect(len(again.Topics), 1, "partitions with data, asked for by the session alone")
	request.SessionEpoch = 2
	request.ForgottenTopics = []kmsg.FetchRequestForgottenTopic{{Topic: topic, TopicID: topicID(topic), Partitions: []int32{0}}}
	last := ask(request, &kmsg.FetchResponse{})
	expectErrorCode(last.ErrorCode, nil, "forgetting a partition")
	expect(len(last.Topics), 0, "partitions of a session that has none left")
	return nil
}

func listOffset(topic string, partition, leaderEpoch int32, ms int64) kmsg.ListOffsetsResponseTopicPartition {
	request := kmsg.NewPtrListOffsetsRequest()
	request.ReplicaID = -1
	part := kmsg.ListOffsetsRequestTopicPartition{Partition: partition, CurrentLeaderEpoch: leaderEpoch, Timestamp: ms}
	request.Topics = []kmsg.ListOffsetsRequestTopic{
		{Topic: topic, Partitions: []kmsg.ListOffsetsRequestTopicPartition{part}},
	}
	return ask(request, &kmsg.ListOffsetsResponse{}).Topics[0].Partitions[0]
}

func offsetFor(topic string, ms int64) kmsg.ListOffsetsResponseTopicPartition {
	found := listOffset(topic, 0, -1, ms)
	expectErrorCode(found.ErrorCode, nil, "asking for an offset")
	return found
}

func epochEnd(topic string, partition, leaderEpoch, epoch int32) kmsg.OffsetForLeaderEpochResponseTopicPartition {
	request := kmsg.NewPtrOffsetForLeaderEpochRequest()
	request.ReplicaID = -1
	part := kmsg.OffsetForLeaderEpochRequestTopicPartition{Partition: partition, CurrentLeaderEpoch: leaderEpoch, LeaderEpoch: epoch}
	request.Topics = []kmsg.OffsetForLeaderEpochRequestTopic{
		{Topic: topic, Partitions: []kmsg.OffsetForLeaderEpochRequestTopicPartition{part}},
	}
	return ask(request, &kmsg.OffsetForLeaderEpochResponse{}).Topics[0].Partitions[0]
}

func rawOffsets() error {
	topic, empty, none := create("offsets", 1, nil), create("offsets-empty", 1, nil), name("offsets-unknown")
	produce(topic, numbered(10))
	eventually("the empty topic is led", func() bool { return listOffset(empty, 0, -1, -1).ErrorCode == 0 })
	first, last := stamp(0).UnixMilli(), stamp(9).UnixMilli()
	for _, s := range []struct {
		what      string
		topic     string
		partition int32
		epoch     int32
		ms        int64
		wanted    *kerr.Error
		offset    int64
		timestamp int64
	}{
		{"the end", topic, 0, -1, -1, nil, 10, -1},
		{"the beginning", topic, 0, -1, -2, nil, 0, -1},
		{"the highest timestamp", topic, 0, -1, -3, nil, 9, last},
		{"the local beginning", topic, 0, -1, -4, nil, 0, -1},
		{"time 0", topic, 0, -1, 0, nil, 0, first},
		{"a time after all", topic, 0, -1, last + 1, nil, -1, -1},
		{"with the leader's epoch", topic, 0, 0, -1, nil, 10, -1},
		{"an epoch to come", topic, 0, 5, -1, kerr.UnknownLeaderEpoch, -1, -1},
		{"an unknown partition", topic, 9, -1, -1, kerr.UnknownTopicOrPartition, -1, -1},
		{"an unknown topic", none, 0, -1, -1, kerr.UnknownTopicOrPartition, -1, -1},
		{"an empty partition's end", empty, 0, -1, -1, nil, 0, -1},
		{"an empty partition's beginning", empty, 0, -1, -2, nil, 0, -1},
		{"an empty partition's highest timestamp", empty, 0, -1, -3, nil, -1, -1},
		{"a time in an empty partition", empty, 0, -1, 0, nil, -1, -1},
	} {
		found := listOffset(s.topic, s.partition, s.epoch, s.ms)
		expectErrorCode(found.ErrorCode, s.wanted, s.what)
		expect([2]int64{found.Offset, found.Timestamp}, [2]int64{s.offset, s.timestamp}, s.what+": offset and timestamp")
	}
	for _, s := range []struct {
		what        string
		topic       string
		partition   int32
		leaderEpoch int32
		epoch       int32
		wanted      *kerr.Error
		found       int32
		end         int64
	}{
		{"the leader's epoch", topic, 0, -1, 0, nil, 0, 10},
		{"the leader's epoch, known", topic, 0, 0, 0, nil, 0, 10},
		{"an epoch never seen", topic, 0, -1, 5, nil, -1, -1},
		{"asked with an epoch to come", topic, 0, 5, 0, kerr.UnknownLeaderEpoch, -1, -1},
		{"an unknown partition", topic, 9, -1, 0, kerr.UnknownTopicOrPartition, -1, -1},
		{"an unknown topic", none, 0, -1, 0, kerr.UnknownTopicOrPartition, -1, -1},
		{"an empty partition's epoch", empty, 0, -1, 0, nil, 0, 0},
	} {
		found := epochEnd(s.topic, s.partition, s.leaderEpoch, s.epoch)
		expectErrorCode(found.ErrorCode, s.wanted, "the end of "+s.what)
		expect([2]int64{int64(found.LeaderEpoch), found.EndOffset}, [2]int64{int64(s.found), s.end}, "the end of "+s.what)
	}
	return nil
}

func rawProducerIDs() error {
	seen, empty := map[int64]bool{}, ""
	for range 100 {
		seen[newProducer()] = true
	}
	expect(len(seen), 100, "distinct producer ids")
	for _, s := range []struct {
		what     string
		producer int64
		epoch    int16
		id       *string
		wanted   *kerr.Error
	}{
		{"an id with an epoch", newProducer(), 0, nil, nil}, // answered with another id
		{"an epoch without an id", -1, 5, nil, kerr.InvalidRequest},
		{"an id without an epoch", 5, -1, nil, kerr.InvalidRequest},
		{"an empty transactional id", -1, -1, &empty, kerr.InvalidRequest},
	} {
		request := kmsg.NewPtrInitProducerIDRequest()
		request.TransactionalID, request.TransactionTimeoutMillis = s.id, 60_000
		request.ProducerID, request.ProducerEpoch = s.producer, s.epoch
		answer := ask(request, &kmsg.InitProducerIDResponse{})
		expectErrorCode(answer.ErrorCode, s.wanted, s.what)
		if s.wanted == nil {
			expect([2]any{seen[answer.ProducerID] || answer.ProducerID == s.producer, answer.ProducerEpoch}, [2]any{false, int16(0)}, s.what)
		}
	}
	return nil
}
