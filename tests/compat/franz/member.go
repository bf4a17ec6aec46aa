package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// A member of a group: what it prints, and why, is told in ../groups/member.py.

func saying(what string) func(context.Context, *kgo.Client, map[string][]int32) {
	return func(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
		fmt.Println(what, strings.Trim(fmt.Sprint(partitions[os.Getenv("TOPIC")]), "[]"))
	}
}

func memberOptions() []kgo.Opt {
	options := []kgo.Opt{
		kgo.SeedBrokers(bootstrap), kgo.ClientID(os.Getenv("NAME")), kgo.ConsumerGroup(os.Getenv("GROUP")),
		kgo.ConsumeTopics(os.Getenv("TOPIC")), kgo.DisableAutoCommit(), kgo.BlockRebalanceOnPoll(),
		kgo.FetchMaxWait(200 * time.Millisecond), kgo.OnPartitionsAssigned(saying("assigned")),
		kgo.OnPartitionsRevoked(saying("revoked")), kgo.OnPartitionsLost(saying("lost")),
		kgo.SessionTimeout(time.Duration(must(strconv.Atoi(os.Getenv("SESSION_MS")))) * time.Millisecond),
		kgo.HeartbeatInterval(500 * time.Millisecond),
	}
	balancers := map[string]kgo.GroupBalancer{"range": kgo.RangeBalancer(), "cooperative": kgo.CooperativeStickyBalancer()}
	if balancer, found := balancers[os.Getenv("ASSIGNOR")]; found {
		return append(options, kgo.Balancers(balancer))
	}
	return append(options, kgo.Balancers(kgo.StickyBalancer()), kgo.ServerSideBalancer()) // KIP-848
}

// runMember reads, prints and commits until SIGTERM has it leave.
func runMember() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	client := must(kgo.NewClient(memberOptions()...))
	for ctx.Err() == nil {
		fetches := client.PollFetches(ctx)
		for _, record := range fetches.Records() {
			fmt.Println("record", record.Partition, record.Offset, string(record.Value))
		}
		if !fetches.Empty() {
			// Not with ctx: what is printed is committed, whatever comes.
			if err := client.CommitUncommittedOffsets(context.Background()); err != nil {
				fmt.Fprintln(os.Stderr, "not committed:", err)
			}
		}
		client.AllowRebalance()
	}
	client.CloseAllowingRebalance()
	fmt.Println("left")
}
