// Package main is franz-go as a client. check: its checks. cross: reads what the other clients wrote.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

var codecs = map[string]kgo.CompressionCodec{
	"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
	"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
}

// codecNumbers are those of the batch attributes.
var codecNumbers = map[string]uint8{"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}

func roundTrip(codec string) func() error {
	return func() error {
		path := filepath.Join(recordsDir, "records.tsv")
		sent, topic := load(path), create(codec, 1, nil)
		produce(topic, sent, kgo.ProducerBatchCompression(codecs[codec]))
		expectRecords(consume(topic, 0, kgo.NewOffset().AtStart(), len(sent)), sent, 0)
		return leaveForOthers(topic, path)
	}
}

func acks(word string, level kgo.Acks) func() error {
	return func() error {
		topic, sent := create("acks-"+word, 1, nil), numbered(100)
		produce(topic, sent, kgo.RequiredAcks(level), kgo.DisableIdempotentWrite())
		expectRecords(consume(topic, 0, kgo.NewOffset().At(0), 100), sent, 0)
		return nil
	}
}

func idempotent() error {
	topic, sent := create("idempotent", 1, nil), numbered(5000)
	placed := produce(topic, sent, kgo.ProducerBatchMaxBytes(2000)) // many batches; idempotence is the default
	for i, r := range placed {
		expect(r.Offset, int64(i), "offset acknowledged")
	}
	got := consume(topic, 0, kgo.NewOffset().At(0), len(sent), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	expectRecords(got, sent, 0)
	expect(got[0].ProducerID >= 0, true, "the batch carries a producer id")
	return nil
}

func partitionsByKey() error {
	topic, keys := create("keyed", 7, nil), loadKeys()
	var sent []*kgo.Record
	for _, k := range keys {
		sent = append(sent, &kgo.Record{Key: k.key, Value: k.key, Timestamp: stamp(0)})
	}
	placed := produce(topic, sent, kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil)))
	there := make([][]*kgo.Record, 7)
	for i, r := range placed {
		expect(r.Partition, keys[i].partition, fmt.Sprintf("partition of key %x", r.Key))
		there[r.Partition] = append(there[r.Partition], sent[i])
	}
	for number, wanted := range there {
		expectRecords(consume(topic, int32(number), kgo.NewOffset().At(0), len(wanted)), wanted, 0)
	}
	return nil
}

// seeks reads from inside one compressed batch, and looks at what the broker sends for that: the whole batch.
func seeks() error {
	topic, sent := create("seeks", 1, nil), numbered(100)
	produce(topic, sent, oneBatch...)
	for _, start := range []int64{0, 1, 57, 99} {
		got := consume(topic, 0, kgo.NewOffset().At(start), 100-int(start))
		expectRecords(got, sent[start:], start)
	}
	expect(len(consumeFor(time.Second, topic, 0, kgo.NewOffset().AtEnd(), 1)), 0, "records at the end")
	p := fetchFrom(topic, 57)
	expect(p.ErrorCode, int16(0), "error code of a fetch")
	expect([2]int64{p.HighWatermark, p.LastStableOffset}, [2]int64{100, 100}, "high watermark, last stable offset")
	var batch kmsg.RecordBatch
	expect(batch.ReadFrom(p.RecordBatches), nil, "decoding what a fetch from the middle sent")
	expect([2]int64{batch.FirstOffset, int64(batch.NumRecords)}, [2]int64{0, 100}, "the batch sent for its middle")
	p = fetchFrom(topic, 100)
	expect([2]int{int(p.ErrorCode), len(p.RecordBatches)}, [2]int{0, 0}, "a fetch at the end")
	return nil
}

func times() error {
	topic, sent := create("times", 1, nil), numbered(100)
	produce(topic, sent, oneBatch...)
	produce(topic, numbered(1)) // an early timestamp after later ones
	base := stamp(0).UnixMilli()
	for _, c := range [][2]int64{{0, 0}, {base, 0}, {base + 1, 1}, {base + 42_000, 42}, {base + 42_500, 43},
		{base + 99_000, 99}, {base + 99_001, -1}, {base + 3_600_000, -1}} {
		found := offsetFor(topic, c[0])
		expect(found.Offset, c[1], fmt.Sprintf("offset for time %d", c[0]-base))
		if c[1] >= 0 {
			expect(found.Timestamp, base+c[1]*1000, "its timestamp")
		} else {
			expect(found.Timestamp, int64(-1), "the timestamp of none")
		}
	}
	return nil
}

func parkedFetch() error {
	topic := create("parked", 1, nil)
	produce(topic, numbered(1))
	arrived := make(chan time.Time)
	go func() {
		client := newClient(kgo.FetchMaxWait(20*time.Second), consumeAt(topic, 0, kgo.NewOffset().At(1)))
		client.PollFetches(context.Background())
		arrived <- time.Now()
		client.Close()
	}()
	time.Sleep(time.Second) // lets the fetch park; were it not parked by then, the check would only be weaker
	produce(topic, numbered(1))
	produced := time.Now()
	if late := (<-arrived).Sub(produced); late > 3*time.Second {
		return fmt.Errorf("the parked reader got the record %v late", late)
	}
	return nil
}

func topicLife() error {
	topic, ctx := name("life"), context.Background()
	retention := "3600000"
	created := must(admin.CreateTopics(ctx, 3, 1, map[string]*string{"retention.ms": &retention}, topic))[topic]
	expect(created.Err, nil, "creating a topic")
	expect(*created.Configs["retention.ms"].Value, retention, "setting as answered")
	described := must(admin.ListTopics(ctx, topic))[topic]
	expect([2]any{len(described.Partitions), described.ID}, [2]any{3, created.ID}, "partitions and id as described")
	expectCode(createErr(topic, 3, 1, nil), kerr.TopicAlreadyExists, "creating it again")
	must(admin.DeleteTopics(ctx, topic))
	eventually("the topic is gone", func() bool { return !must(admin.ListTopics(ctx)).Has(topic) })
	expectCode(must(admin.DeleteTopics(ctx, topic))[topic].Err, kerr.UnknownTopicOrPartition, "deleting it again")
	again := must(admin.CreateTopics(ctx, -1, -1, nil, topic))[topic] // the broker's defaults
	expect(again.Err, nil, "creating it anew")
	expect(again.ID != created.ID, true, "another topic id")
	expectCode(must(admin.ListTopics(ctx, name("unknown")))[name("unknown")].Err, kerr.UnknownTopicOrPartition, "an unknown topic")
	return nil
}

func topicRefusals() error {
	topic, value := name("refused"), "1"
	for what, c := range map[string]struct {
		partitions  int32
		replication int16
		setting     string
		topic       string
		wanted      *kerr.Error
	}{
		"no partitions":              {0, 1, "", topic, kerr.InvalidPartitions},
		"more replicas than brokers": {1, 3, "", topic, kerr.InvalidReplicationFactor},
		"an unknown setting":         {1, 1, "no.such.setting", topic, kerr.InvalidConfig},
		"a name with a slash":        {1, 1, "", "a/b", kerr.InvalidTopicException},
	} {
		var config map[string]*string
		if c.setting != "" {
			config = map[string]*string{c.setting: &value}
		}
		expectCode(createErr(c.topic, c.partitions, c.replication, config), c.wanted, what)
	}
	ctx := context.Background()
	expect(must(admin.ValidateCreateTopics(ctx, 2, 1, nil, topic))[topic].Err, nil, "validating")
	expectCode(must(admin.ValidateCreateTopics(ctx, 0, 1, nil, topic))[topic].Err, kerr.InvalidPartitions, "validating")
	expect(must(admin.ListTopics(ctx)).Has(topic), false, "the topic exists")
	return nil
}

func createdByUse() error {
	topic := name("by-use")
	sent := []*kgo.Record{{Key: []byte("key"), Value: []byte("value")}} // of now, for the broker's retention
	produce(topic, sent, kgo.AllowAutoTopicCreation())
	expectRecords(consume(topic, 0, kgo.NewOffset().At(0), 1), sent, 0)
	return nil
}

// tooLarge goes on with the same idempotent producer after the refusal.
func tooLarge() error {
	limit := "10000"
	topic := create("small", 1, map[string]*string{"max.message.bytes": &limit})
	value := make([]byte, 20_000)
	rand.New(rand.NewSource(1)).Read(value)
	client := newClient(kgo.DefaultProduceTopic(topic))
	defer client.Close()
	_, err := client.ProduceSync(context.Background(), &kgo.Record{Value: value}).First()
	expectCode(err, kerr.MessageTooLarge, "a record over max.message.bytes")
	must(client.ProduceSync(context.Background(), numbered(1)...).First())
	expectRecords(consume(topic, 0, kgo.NewOffset().At(0), 1), numbered(1), 0)
	return nil
}

func appendTime() error {
	kind := "LogAppendTime"
	topic := create("append-time", 1, map[string]*string{"message.timestamp.type": &kind})
	before := time.Now().Truncate(time.Millisecond)
	produce(topic, numbered(10), oneBatch...)
	after := time.Now()
	got := consume(topic, 0, kgo.NewOffset().At(0), 10)
	for i, r := range got {
		expect(r.Attrs.TimestampType(), int8(1), "timestamp type")
		expect(!r.Timestamp.Before(before) && !r.Timestamp.After(after), true, "timestamp is the broker's")
		expect(bytes.Equal(r.Value, numbered(10)[i].Value), true, "value")
	}
	return nil
}

// manyConnections has every connection write to and read from every partition, all at once.
func manyConnections() error {
	const partitions, connections, each = 16, 32, 20
	topic := create("many", partitions, nil)
	var all sync.WaitGroup
	failures := make(chan error, 2*connections)
	work := func(job func(number int)) {
		for number := range connections {
			all.Add(1)
			go func() {
				defer all.Done()
				defer func() {
					if reason := recover(); reason != nil {
						failures <- fmt.Errorf("connection %d: %v", number, reason)
					}
				}()
				job(number)
			}()
		}
		all.Wait()
	}
	work(func(number int) {
		var sent []*kgo.Record
		for i := range each * partitions {
			text := fmt.Sprintf("%d %d", number, i)
			sent = append(sent, &kgo.Record{Partition: int32(i % partitions), Value: []byte(text), Timestamp: stamp(i)})
		}
		produce(topic, sent, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	})
	whole := make([][]*kgo.Record, partitions)
	for partition := range whole {
		whole[partition] = consume(topic, int32(partition), kgo.NewOffset().At(0), connections*each)
		expectEach(whole[partition], partition, partitions, connections, each)
	}
	work(func(number int) {
		for i := range 4 {
			partition := (number + i*5) % partitions
			got := consume(topic, int32(partition), kgo.NewOffset().At(0), connections*each)
			expectRecords(got, whole[partition], 0)
		}
	})
	close(failures)
	return <-failures // nil when there is none
}

// expectEach wants each connection's records of a partition once and in the order in which it sent them.
func expectEach(got []*kgo.Record, partition, partitions, connections, each int) {
	next := make([]int, connections)
	for _, r := range got {
		var number, i int
		fmt.Sscanf(string(r.Value), "%d %d", &number, &i)
		expect(i, partition+next[number]*partitions, fmt.Sprintf("record of connection %d at offset %d", number, r.Offset))
		next[number]++
	}
	for number, count := range next {
		expect(count, each, fmt.Sprintf("records of connection %d in partition %d", number, partition))
	}
}

func crossChecks() (all []check) {
	for _, line := range strings.Fields(string(must(os.ReadFile(crossFile)))) {
		topic, path, _ := strings.Cut(line, "=")
		if strings.HasPrefix(topic, name("")) {
			continue
		}
		all = append(all, check{"reads " + strings.TrimPrefix(topic, run+"."), func() error {
			wanted := load(path)
			got := consume(topic, 0, kgo.NewOffset().At(0), len(wanted))
			expectRecords(got, wanted, 0)
			codec := codecNumbers[topic[strings.LastIndex(topic, ".")+1:]]
			// A client may send a small batch plain, so one batch in that codec is enough.
			for _, r := range got {
				if r.Attrs.CompressionType() == codec {
					return nil
				}
			}
			return errors.New("no batch is compressed as the topic's name says")
		}})
	}
	return all
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == "member" {
		runMember()
		return
	}
	checks := []check{}
	for _, codec := range []string{"none", "gzip", "snappy", "lz4", "zstd"} {
		checks = append(checks, check{"round trip, " + codec, roundTrip(codec)})
	}
	checks = append(checks,
		check{"acks 0", acks("0", kgo.NoAck())},
		check{"acks 1", acks("1", kgo.LeaderAck())},
		check{"idempotent producer", idempotent},
		check{"key to partition", partitionsByKey},
		check{"seek to beginning, end, into a batch, out of range", seeks},
		check{"offsets for times", times},
		check{"parked fetch wakes on new data", parkedFetch},
		check{"topic created, listed, deleted", topicLife},
		check{"topics that must be refused, validate only", topicRefusals},
		check{"topic created by use", createdByUse},
		check{"max.message.bytes", tooLarge},
		check{"LogAppendTime", appendTime},
		check{"sequences of idempotent producers, raw", rawSequences},
		check{"batches that must be refused, raw", rawBatches},
		check{"fetches, sessions, raw", rawFetches},
		check{"offsets and leader epochs, raw", rawOffsets},
		check{"producer ids, raw", rawProducerIDs},
		check{"32 connections, any partition from each", manyConnections},
	)
	checks = append(checks, recompressionChecks()...)
	if len(os.Args) > 1 && os.Args[1] == "cross" {
		checks = crossChecks()
	}
	os.Exit(runChecks(checks))
}
