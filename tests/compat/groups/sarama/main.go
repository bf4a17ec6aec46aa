// A member by sarama: what it prints, and why, is told in ../member.py.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/IBM/sarama"
)

var topic = os.Getenv("TOPIC")

// handler prints from one goroutine per partition.
type handler struct{ printing sync.Mutex }

func (h *handler) say(what string, partitions []int32) {
	h.printing.Lock()
	defer h.printing.Unlock()
	fmt.Println(what, strings.Trim(fmt.Sprint(partitions), "[]"))
}

func (h *handler) Setup(session sarama.ConsumerGroupSession) error {
	h.say("assigned", session.Claims()[topic])
	return nil
}

func (h *handler) Cleanup(session sarama.ConsumerGroupSession) error {
	h.say("revoked", session.Claims()[topic])
	return nil
}

func (h *handler) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for message := range claim.Messages() {
		h.printing.Lock()
		fmt.Println("record", message.Partition, message.Offset, string(message.Value))
		h.printing.Unlock()
		session.MarkMessage(message, "")
		session.Commit()
	}
	return nil
}

func settings() *sarama.Config {
	config := sarama.NewConfig()
	config.Version = sarama.MaxVersion
	config.ClientID = os.Getenv("NAME")
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Offsets.AutoCommit.Enable = false
	config.Consumer.MaxWaitTime = 200 * time.Millisecond
	config.Consumer.Group.Rebalance.GroupStrategies = []sarama.BalanceStrategy{sarama.NewBalanceStrategyRange()}
	milliseconds, err := strconv.Atoi(os.Getenv("SESSION_MS"))
	if err != nil {
		log.Fatal(err)
	}
	config.Consumer.Group.Session.Timeout = time.Duration(milliseconds) * time.Millisecond
	config.Consumer.Group.Heartbeat.Interval = 500 * time.Millisecond
	return config
}

func main() {
	sarama.Logger = log.New(os.Stderr, "", log.LstdFlags)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	group, err := sarama.NewConsumerGroup([]string{os.Getenv("BOOTSTRAP")}, os.Getenv("GROUP"), settings())
	if err != nil {
		log.Fatal(err)
	}
	for h := new(handler); ctx.Err() == nil; {
		// It returns at each rebalance, and when the broker is gone.
		if err := group.Consume(ctx, []string{topic}, h); err != nil {
			log.Print(err)
		}
	}
	if err := group.Close(); err != nil {
		log.Fatal(err)
	}
	fmt.Println("left")
}
