package main

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"os"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// The settings of a run. Checks say what is wrong by panicking: runChecks reports it and goes on.
var (
	bootstrap  = setting("BOOTSTRAP", "127.0.0.1:9092")
	run        = setting("RUN", fmt.Sprintf("compat-%d", time.Now().Unix()))
	recordsDir = setting("RECORDS", "target/compat/records")
	crossFile  = os.Getenv("CROSS")
	base       = newClient()
	admin      = kadm.NewClient(base)
	oneBatch   = []kgo.Opt{kgo.ProducerLinger(200 * time.Millisecond), kgo.ProducerBatchCompression(kgo.Lz4Compression())}
)

const limit = 60 * time.Second // for one check

type check struct {
	title string
	call  func() error
}

func setting(variable, otherwise string) string {
	if value := os.Getenv(variable); value != "" {
		return value
	}
	return otherwise
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func expect(got, wanted any, what string) {
	if !reflect.DeepEqual(got, wanted) {
		panic(fmt.Errorf("%s: wanted %v, got %v", what, wanted, got))
	}
}

func expectCode(err error, wanted *kerr.Error, what string) {
	if !errors.Is(err, wanted) {
		panic(fmt.Errorf("%s: wanted %s, got %v", what, wanted.Message, err))
	}
}

// expectRecords compares byte for byte, in order, at contiguous offsets.
func expectRecords(got, wanted []*kgo.Record, first int64) {
	expect(len(got), len(wanted), "number of records")
	for i, g := range got {
		w, at := wanted[i], fmt.Sprintf("offset %d: ", g.Offset)
		expect(g.Offset, first+int64(i), "offset")
		for _, part := range []struct {
			what        string
			got, wanted []byte
		}{{"key", g.Key, w.Key}, {"value", g.Value, w.Value}} {
			if !bytes.Equal(part.got, part.wanted) || (part.got == nil) != (part.wanted == nil) {
				panic(errors.New(at + "another " + part.what))
			}
		}
		if len(g.Headers)+len(w.Headers) > 0 {
			expect(g.Headers, w.Headers, at+"headers")
		}
		if !w.Timestamp.IsZero() {
			expect(g.Timestamp.UnixMilli(), w.Timestamp.UnixMilli(), at+"timestamp")
		}
	}
}

func eventually(what string, test func() bool) {
	for end := time.Now().Add(15 * time.Second); !test(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			panic(errors.New("not within 15 s: " + what))
		}
	}
}

func unhexed(text string) []byte {
	if text == "-" {
		return nil
	}
	return must(hex.DecodeString(text))
}

// load reads a file of records.py; a timestamp of '*' becomes the zero time, which fits any.
func load(path string) (records []*kgo.Record) {
	for _, line := range strings.Split(strings.TrimSuffix(string(must(os.ReadFile(path))), "\n"), "\n") {
		parts := strings.Split(line, "\t")
		record := &kgo.Record{Key: unhexed(parts[1]), Value: unhexed(parts[2])}
		if parts[0] != "*" {
			record.Timestamp = time.UnixMilli(must(strconv.ParseInt(parts[0], 10, 64)))
		}
		for _, pair := range strings.FieldsFunc(parts[3], func(r rune) bool { return r == ';' }) {
			name, value, _ := strings.Cut(pair, "=")
			record.Headers = append(record.Headers, kgo.RecordHeader{Key: string(unhexed(name)), Value: unhexed(value)})
		}
		records = append(records, record)
	}
	return records
}

type keyPlace struct {
	key       []byte
	partition int32
}

func loadKeys() (keys []keyPlace) {
	fields := strings.Fields(string(must(os.ReadFile(recordsDir + "/keys.tsv"))))
	for i := 0; i < len(fields); i += 2 {
		keys = append(keys, keyPlace{unhexed(fields[i]), int32(must(strconv.Atoi(fields[i+1])))})
	}
	return keys
}

func stamp(i int) time.Time { return time.UnixMilli(1_700_000_000_000 + int64(i)*1000) }

// numbered makes small records, a second apart.
func numbered(count int) (records []*kgo.Record) {
	for i := range count {
		value := strings.Repeat(fmt.Sprintf("record %d ", i), 5)
		records = append(records, &kgo.Record{Key: fmt.Appendf(nil, "k%d", i%7), Value: []byte(value), Timestamp: stamp(i)})
	}
	return records
}

func name(word string) string { return run + ".franz-go." + word }

func newClient(options ...kgo.Opt) *kgo.Client {
	return must(kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(bootstrap), kgo.ProducerBatchMaxBytes(1_048_000),
		kgo.MetadataMinAge(50 * time.Millisecond)}, options...)...))
}

func createErr(topic string, partitions int32, replication int16, config map[string]*string) error {
	return must(admin.CreateTopics(context.Background(), partitions, replication, config, topic))[topic].Err
}

func create(word string, partitions int32, config map[string]*string) string {
	forever := "-1"
	all := map[string]*string{"retention.ms": &forever} // the checks' records are years old
	maps.Copy(all, config)
	expect(createErr(name(word), partitions, 1, all), nil, "creating "+word)
	return name(word)
}

// produce sends copies, since the client writes to the records that it sends, and returns them.
func produce(topic string, records []*kgo.Record, options ...kgo.Opt) (placed []*kgo.Record) {
	client := newClient(append([]kgo.Opt{kgo.DefaultProduceTopic(topic)}, options...)...)
	defer client.Close()
	for _, r := range records {
		c := *r
		placed = append(placed, &c)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Second)
	defer cancel()
	if err := client.ProduceSync(ctx, placed...).FirstErr(); err != nil {
		panic(err)
	}
	return placed
}

func consumeAt(topic string, partition int32, start kgo.Offset) kgo.Opt {
	return kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {partition: start}})
}

func consume(topic string, partition int32, start kgo.Offset, count int, options ...kgo.Opt) []*kgo.Record {
	return consumeFor(20*time.Second, topic, partition, start, count, options...)
}

// consumeFor reads until there are count records or the time is over.
func consumeFor(most time.Duration, topic string, partition int32, start kgo.Offset, count int, options ...kgo.Opt) (got []*kgo.Record) {
	client := newClient(append([]kgo.Opt{consumeAt(topic, partition, start), kgo.FetchMaxWait(500 * time.Millisecond)}, options...)...)
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), most)
	defer cancel()
	for len(got) < count && ctx.Err() == nil {
		fetches := client.PollFetches(ctx)
		fetches.EachError(func(_ string, _ int32, err error) {
			if ctx.Err() == nil {
				panic(err)
			}
		})
		got = append(got, fetches.Records()...)
	}
	return got
}

// leaveForOthers says to the other clients that this topic holds the records of that file.
func leaveForOthers(topic, path string) error {
	if crossFile == "" {
		return nil
	}
	file, err := os.OpenFile(crossFile, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(file, "%s=%s\n", topic, path)
	return errors.Join(err, file.Close())
}

// runChecks runs them in turn and prints a line for each; its result is the exit code.
func runChecks(checks []check) (code int) {
	for _, c := range checks {
		start, done := time.Now(), make(chan error, 1)
		go func() {
			defer func() {
				if reason := recover(); reason != nil {
					done <- fmt.Errorf("%v", reason)
				}
			}()
			done <- c.call()
		}()
		var err error
		select {
		case err = <-done:
		case <-time.After(limit):
			err = fmt.Errorf("not done within %v", limit)
		}
		word := "ok"
		if err != nil {
			word, code = "FAIL", 1
		}
		fmt.Printf("%-4s %-16s %6.2f s  %s\n", word, "franz-go", time.Since(start).Seconds(), c.title)
		if err != nil {
			fmt.Println("    ", err)
		}
	}
	return code
}
