// A member by kafkajs: what it prints, and why, is told in ../member.py.
const { Kafka, logLevel } = require("kafkajs");

const { BOOTSTRAP, GROUP, TOPIC, NAME, SESSION_MS } = process.env;
const kafka = new Kafka({
  clientId: NAME,
  brokers: [BOOTSTRAP],
  logLevel: logLevel.WARN,
  logCreator: () => ({ log }) => process.stderr.write(JSON.stringify(log) + "\n"),
  retry: { initialRetryTime: 100, maxRetryTime: 1000, retries: 30 },
});
const consumer = kafka.consumer({
  groupId: GROUP,
  sessionTimeout: Number(SESSION_MS),
  rebalanceTimeout: 30000,
  heartbeatInterval: 500,
  maxWaitTimeInMs: 200,
});
let own = [];

function say(...words) {
  process.stdout.write(words.join(" ") + "\n");
}

function revoke() {
  if (own.length) say("revoked", ...own);
  own = [];
}

consumer.on(consumer.events.REBALANCING, revoke);
consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
  revoke();
  own = payload.memberAssignment[TOPIC] ?? [];
  say("assigned", ...own);
});

async function eachBatch({ batch, resolveOffset, commitOffsetsIfNecessary, uncommittedOffsets, heartbeat, isStale }) {
  for (const message of batch.messages) {
    if (isStale()) break;
    say("record", batch.partition, message.offset, message.value);
    resolveOffset(message.offset);
  }
  await commitOffsetsIfNecessary(uncommittedOffsets());
  await heartbeat();
}

async function main() {
  await consumer.connect();
  await consumer.subscribe({ topic: TOPIC, fromBeginning: true });
  await consumer.run({ eachBatchAutoResolve: false, eachBatch });
}

process.on("SIGTERM", async () => {
  await consumer.disconnect();
  revoke();
  say("left");
  process.exit(0); // it would stay for what is left of connections to a broker that was killed
});
main();
