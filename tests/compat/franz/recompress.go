package main

import (
	"bytes"
	"context"
	"fmt"
	"math/rand"
	"path/filepath"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
)

// compression.type of a topic: batches that come with another codec are stored with the topic's.

// storedAs are the values of compression.type that name a codec, with its number in the batch attributes.
var storedAs = map[string]uint8{"uncompressed": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}

func configOf(values ...string) map[string]*string {
	config := map[string]*string{}
	for i := 0; i < len(values); i += 2 {
		config[values[i]] = &values[i+1]
	}
	return config
}

func expectStoredAs(got []*kgo.Record, codec uint8, what string) {
	for _, r := range got {
		expect(r.Attrs.CompressionType(), codec, fmt.Sprintf("%s: codec at offset %d", what, r.Offset))
	}
}

// recompressed sends the records with every codec to topics of every compression.type.
func recompressed() error {
	sent := load(filepath.Join(recordsDir, "records.tsv"))
	for kind, number := range storedAs {
		topic, first := create("stored-"+kind, 1, configOf("compression.type", kind)), int64(0)
		for codec, compression := range codecs {
			produce(topic, sent, kgo.ProducerBatchCompression(compression))
			got := consume(topic, 0, kgo.NewOffset().At(first), len(sent))
			expectRecords(got, sent, first)
			expectStoredAs(got, number, codec+" to "+kind)
			first += int64(len(sent))
		}
	}
	topic := create("stored-producer", 1, configOf("compression.type", "producer"))
	produce(topic, sent, kgo.ProducerBatchCompression(codecs["gzip"]))
	expectStoredAs(consume(topic, 0, kgo.NewOffset().At(0), len(sent)), 1, "as its producer sent it")
	return nil
}

// recompressedLarge sends batches of a megabyte from an idempotent producer: none overtakes another.
func recompressedLarge() error {
	topic := create("stored-large", 1, configOf("compression.type", "zstd", "compression.zstd.level", "1"))
	random, sent := rand.New(rand.NewSource(7)), []*kgo.Record{}
	for i := range 300 {
		value := make([]byte, 20_000)
		random.Read(value[:10_000+i%2*10_000])
		sent = append(sent, &kgo.Record{Value: value, Timestamp: stamp(i)})
	}
	placed := produce(topic, sent, kgo.ProducerBatchCompression(kgo.Lz4Compression()))
	for i, r := range placed {
		expect(r.Offset, int64(i), "offset acknowledged")
	}
	got := consume(topic, 0, kgo.NewOffset().At(0), len(sent))
	expectRecords(got, sent, 0)
	expectStoredAs(got, 4, "large batches")
	return nil
}

// fetchedBatch is the stored batch that holds an offset, and its bytes.
func fetchedBatch(topic string, offset int64) (kmsg.RecordBatch, []byte) {
	request, part := fetchRequest(topic, offset)
	part.PartitionMaxBytes = 1
	answer := ask(request, &kmsg.FetchResponse{}).Topics[0].Partitions[0]
	expectErrorCode(answer.ErrorCode, nil, "a fetch")
	var batch kmsg.RecordBatch
	expect(batch.ReadFrom(answer.RecordBatches), nil, "decoding a batch")
	return batch, answer.RecordBatches
}

// rawRecompressed looks at what a rebuilt batch keeps, and what one has that was not rebuilt.
func rawRecompressed() error {
	topic, kept := create("stored-raw", 1, configOf("compression.type", "gzip")), create("stored-kept", 1, configOf("compression.type", "uncompressed"))
	id, producer := topicID(topic), newProducer()
	lying := batchOf(3, producer, 0, 0)
	lying.MaxTimestamp += 5000
	for i, s := range []struct {
		what   string
		batch  kmsg.RecordBatch
		wanted *kerr.Error
		offset int64
	}{
		{"the first batch", lying, nil, 0},
		{"the second", batchOf(2, producer, 0, 3), nil, 3},
		{"the first again", lying, nil, 0},
		{"a gap", batchOf(1, producer, 0, 9), kerr.OutOfOrderSequenceNumber, -1},
		{"the third", batchOf(1, producer, 0, 5), nil, 5},
	} {
		code, offset := rawProduce(topic, id, 0, encoded(s.batch))
		what := fmt.Sprintf("%d, %s", i, s.what)
		expectErrorCode(code, s.wanted, what)
		expect(offset, s.offset, what+": base offset")
	}
	first, _ := fetchedBatch(topic, 0)
	expect(first.Attributes, int16(1), "attributes of a rebuilt batch")
	expect([2]int64{first.FirstTimestamp, first.MaxTimestamp}, [2]int64{stamp(0).UnixMilli(), stamp(0).UnixMilli()},
		"timestamps of a rebuilt batch, whatever its producer claims")
	expect([3]int64{first.ProducerID, int64(first.ProducerEpoch), int64(first.FirstSequence)}, [3]int64{producer, 0, 0}, "its producer")
	expect([3]int64{first.FirstOffset, int64(first.LastOffsetDelta), int64(first.NumRecords)}, [3]int64{0, 2, 3}, "its offsets")

	sent := encoded(batchOf(3, -1, -1, -1))
	code, _ := rawProduce(kept, topicID(kept), 0, sent)
	expectErrorCode(code, nil, "a batch with the topic's codec")
	_, stored := fetchedBatch(kept, 0)
	expect(bytes.Equal(stored[16:], sent[16:]), true, "a batch with the topic's codec is stored as it was sent")

	damaged := batchOf(3, -1, -1, -1)
	damaged.Records = damaged.Records[:len(damaged.Records)-3]
	code, _ = rawProduce(topic, id, 0, encoded(damaged))
	expect(code != 0, true, "records that do not decode are refused")
	return nil
}

// recompressedTooLarge: the limit holds for what is sent and for what is stored.
func recompressedTooLarge() error {
	topic := create("stored-small", 1, configOf("compression.type", "uncompressed", "max.message.bytes", "10000"))
	client := newClient(kgo.DefaultProduceTopic(topic), kgo.ProducerBatchCompression(kgo.ZstdCompression()))
	defer client.Close()
	_, err := client.ProduceSync(context.Background(), &kgo.Record{Value: make([]byte, 50_000)}).First()
	expectCode(err, kerr.MessageTooLarge, "a record that is too large uncompressed")
	must(client.ProduceSync(context.Background(), numbered(1)...).First())
	got := consume(topic, 0, kgo.NewOffset().At(0), 1)
	expectRecords(got, numbered(1), 0)
	expectStoredAs(got, 0, "a small record")
	return nil
}

// oldRecords: every record of a batch is looked at, whatever the batch's header says, in small batches and in large ones.
func oldRecords() error {
	topic := create("stored-not-old", 1, configOf("message.timestamp.before.max.ms", "60000"))
	for _, size := range []int{100, 200_000} {
		value := make([]byte, size)
		rand.New(rand.NewSource(3)).Read(value)
		for codec, compression := range codecs {
			client := newClient(append(oneBatch, kgo.DefaultProduceTopic(topic), kgo.ProducerBatchCompression(compression))...)
			send := func(second time.Time) error {
				return client.ProduceSync(ctx, &kgo.Record{Value: value, Timestamp: time.Now()}, &kgo.Record{Value: value, Timestamp: second}).FirstErr()
			}
			what := fmt.Sprintf("%d bytes with %s", size, codec)
			expectCode(send(stamp(0)), kerr.InvalidTimestamp, "an old record behind a new one, "+what)
			expect(send(time.Now()), nil, "two new records, "+what)
			client.Close()
		}
	}
	return nil
}

func recompressedAppendTime() error {
	topic := create("stored-append-time", 1, configOf("compression.type", "lz4", "message.timestamp.type", "LogAppendTime"))
	produce(topic, numbered(10), append([]kgo.Opt{kgo.ProducerBatchCompression(kgo.NoCompression())}, oneBatch...)...)
	got := consume(topic, 0, kgo.NewOffset().At(0), 10)
	expectStoredAs(got, 3, "with append time")
	for i, r := range got {
		expect(r.Attrs.TimestampType(), int8(1), "timestamp type")
		expect(r.Timestamp.After(stamp(100_000)), true, "timestamp is the broker's")
		expect(bytes.Equal(r.Value, numbered(10)[i].Value), true, "value")
	}
	return nil
}

// recompressionAltered changes the setting while one idempotent producer goes on.
func recompressionAltered() error {
	topic := create("stored-altered", 1, nil)
	client := newClient(kgo.DefaultProduceTopic(topic), kgo.ProducerBatchCompression(kgo.SnappyCompression()))
	defer client.Close()
	count := int64(0)
	storedCodec := func() uint8 {
		placed := must(client.ProduceSync(ctx, &kgo.Record{Value: bytes.Repeat([]byte("value "), 100), Timestamp: stamp(int(count))}).First())
		expect(placed.Offset, count, "offset")
		count++
		batch, _ := fetchedBatch(topic, placed.Offset)
		return uint8(batch.Attributes & 7)
	}
	expect(storedCodec(), uint8(2), "the producer's codec")
	for _, kind := range []string{"zstd", "uncompressed", "gzip", "lz4"} {
		change := []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "compression.type", Value: &kind}}
		expect(must(admin.AlterTopicConfigs(ctx, change, topic))[0].Err, nil, "altering the setting")
		eventually("batches are stored as "+kind, func() bool { return storedCodec() == storedAs[kind] })
	}
	change := []kadm.AlterConfig{{Op: kadm.DeleteConfig, Name: "compression.type"}}
	expect(must(admin.AlterTopicConfigs(ctx, change, topic))[0].Err, nil, "taking the setting away")
	eventually("batches are stored as sent", func() bool { return storedCodec() == 2 })
	got := consume(topic, 0, kgo.NewOffset().At(0), int(count))
	for i, r := range got {
		expect([2]int64{r.Offset, r.Timestamp.UnixMilli()}, [2]int64{int64(i), stamp(i).UnixMilli()}, "offset and timestamp")
	}
	return nil
}

// zstdForOldReaders: who fetches with a version from before zstd gets the batches as they are, all the same.
func zstdForOldReaders() error {
	topic := create("stored-for-old", 1, configOf("compression.type", "zstd"))
	produce(topic, numbered(3))
	node := must(admin.ListBrokers(ctx))[0].NodeID
	versions := kversion.Stable()
	versions.SetMaxKeyVersion(1, 9)
	client := newClient(kgo.MaxVersions(versions))
	defer client.Close()
	request, _ := fetchRequest(topic, 0)
	answer := must(client.Broker(int(node)).Request(ctx, request)).(*kmsg.FetchResponse)
	expect(answer.Version, int16(9), "version of the fetch")
	expectErrorCode(answer.Topics[0].Partitions[0].ErrorCode, nil, "a fetch from before zstd")
	var batch kmsg.RecordBatch
	expect(batch.ReadFrom(answer.Topics[0].Partitions[0].RecordBatches), nil, "decoding a batch")
	expect([2]int32{int32(batch.Attributes & 7), batch.NumRecords}, [2]int32{4, 3}, "its codec and records")
	return nil
}

func compressionSettings() error {
	topic := create("stored-settings", 1, configOf("compression.gzip.level", "9"))
	described := map[string]kadm.Config{}
	for _, c := range must(admin.DescribeTopicConfigs(ctx, topic))[0].Configs {
		described[c.Key] = c
	}
	for key, wanted := range map[string]string{"compression.type": "producer", "compression.gzip.level": "9",
		"compression.lz4.level": "9", "compression.zstd.level": "3"} {
		expect(*described[key].Value, wanted, key)
		expect(described[key].Synonyms[len(described[key].Synonyms)-1].Key, key, "the broker's name for "+key)
	}
	expect(*described["compression.gzip.level"].Synonyms[1].Value, "-1", "the default of compression.gzip.level")
	for _, s := range []struct {
		key, value string
		wanted     *kerr.Error
	}{
		{"compression.type", "none", kerr.InvalidConfig},
		{"compression.type", "ZSTD", kerr.InvalidConfig},
		{"compression.type", "uncompressed", nil},
		{"compression.gzip.level", "-1", nil},
		{"compression.gzip.level", "0", kerr.InvalidConfig},
		{"compression.gzip.level", "10", kerr.InvalidConfig},
		{"compression.lz4.level", "9", nil},
		{"compression.lz4.level", "18", kerr.InvalidConfig},
		{"compression.zstd.level", "22", nil},
		{"compression.zstd.level", "23", kerr.InvalidConfig},
		{"compression.zstd.level", "-131072", nil},
		{"compression.zstd.level", "-131073", kerr.InvalidConfig},
	} {
		err := must(admin.ValidateCreateTopics(ctx, 1, 1, configOf(s.key, s.value), name("stored-validated")))[name("stored-validated")].Err
		if s.wanted == nil {
			expect(err, nil, s.key+"="+s.value)
		} else {
			expectCode(err, s.wanted, s.key+"="+s.value)
		}
	}
	return nil
}

func recompressionChecks() []check {
	return []check{
		{"stored with the topic's codec, each from each", recompressed},
		{"stored with the topic's codec, large", recompressedLarge},
		{"stored with the topic's codec, raw", rawRecompressed},
		{"stored with the topic's codec, too large then", recompressedTooLarge},
		{"stored with the topic's codec, LogAppendTime", recompressedAppendTime},
		{"records that are too old, in any batch", oldRecords},
		{"compression.type altered under a producer", recompressionAltered},
		{"zstd and readers from before it", zstdForOldReaders},
		{"settings of compression", compressionSettings},
	}
}
