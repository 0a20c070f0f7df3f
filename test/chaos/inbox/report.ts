/** The output of a run in mode inbox: for a terminal, and as the report that is kept with the sources. Pure text. */
import { versions } from '../../harness/versions.ts'
import { listed, rowsOf, total } from '../counts.ts'
import type { Counts } from '../counts.ts'
import { chapterOf, printedViolations, VIOLATIONS_SHOWN } from '../report.ts'
import { TOPOLOGIES } from '../topologies/topologies.ts'
import { INBOX_ROUTES, TOPICS } from './routes.ts'
import type { InboxRoute, Target } from './routes.ts'
import type { InboxResult } from './run.ts'

export function printedInbox (result: InboxResult): string {
  const {
    seed, topology, seconds, gateways, messages, acceptedUnderFaults, deliveredUnderFaults, requests, deliveries, again,
    duplicates, answers, told, states, ends, byHand, happened, worstAnswerMs, drainedInMs, violations, excused
  } = result
  return [
    `seed ${seed}, mode inbox: ${seconds} s under faults, ${gateways} gateways${topology === 'plain' ? '' : `, topology ${topology}`}`,
    `  faults      ${total(result.faults)}: ${listed(result.faults)}`,
    `  messages    ${messages} (${acceptedUnderFaults} under faults), requests ${requests}, duplicates with the same 202 ${duplicates}`,
    `  answers     ${listed(answers)}`,
    `  told        ${listed(told)}`,
    `  deliveries  ${deliveries} (${deliveredUnderFaults} under faults), of what the consumer had already ${again}`,
    `  ends        ${listed(ends)}`,
    `  states      ${listed(states)}`,
    `  by hand     ${listed(byHand)}`,
    `  happened    ${listed(happened)}`,
    `  worst       ${worstAnswerMs} ms`,
    `  drained     in ${drainedInMs} ms`,
    `  excused     ${excused} deliveries of a process that had just been woken`,
    `  violations  ${violations.length}`,
    ...printedViolations(seed, violations)
  ].join('\n')
}

export function reportedInbox (results: readonly InboxResult[], args: readonly string[]): string {
  const sum = (of: (result: InboxResult) => number): number => results.reduce((total, result) => total + of(result), 0)
  const rows = (of: (result: InboxResult) => Counts): string => rowsOf(results.map(of))
  return `# Chaos run, mode inbox

\`npm run chaos -- ${args.join(' ')}\`, ${new Date().toISOString().slice(0, 10)}: ${sum(({ messages }) => messages)} messages,
**${sum(({ violations }) => violations.length)} violations** of N1–N13 ([protocol.md](../concepts/protocol.md#9-invariants)).

${versions().map((line) => `* ${line}`).join('\n')}

Real gateway processes, each of which accepts and delivers, run behind the run's own TCP proxies. The stores are ${TOPOLOGIES[results[0]?.topology ?? 'plain'].what}. The consumer
writes down and syncs every delivery before it answers. Senders send until they get 202. At the command line an operator retries and discards messages, replays delivered ones, and pauses inboxes. Every gateway has these routes:

${INBOX_ROUTES.map(routeLine).join('\n')}

| seed | seconds | faults | messages | under faults | requests | deliveries | under faults | again | drained in | violations |
|---|---|---|---|---|---|---|---|---|---|---|
${results.map((each) => `| ${each.seed} | ${each.seconds} | ${total(each.faults)} | ${each.messages} | ${each.acceptedUnderFaults} | ${each.requests} | ${each.deliveries} | ${each.deliveredUnderFaults} | ${each.again} | ${(each.drainedInMs / 1000).toFixed(1)} s | ${each.violations.length} |`).join('\n')}

*messages*: those that were accepted. On \`wish\`, requests that did not ask for the inbox were executed. *under faults*: accepted, and delivered to the consumer, before the last fault had ended. *again*: deliveries of what the consumer had already, replays included. *drained*: from the end of the last fault until nothing waited any more, senders' retries included.

Deliveries of a process that had just been woken, after its message had been taken from it (protocol §10): ${sum(({ excused }) => excused)}.

## Targets, replays, schedules, pauses

| happened | |
|---|---|
${rows(({ happened }) => happened)}

A time is a \`deliverAt\` or a \`delay\` that was not over at the acceptance. A trial may deliver one message of an inbox that a gateway has paused.

## Faults

| kind | injected |
|---|---|
${rows(({ faults }) => faults)}

## Senders

| told | |
|---|---|
${rows(({ told }) => told)}

| status | |
|---|---|
${rows(({ answers }) => answers)}

## Messages

At the end:

| state | |
|---|---|
${rows(({ states }) => states)}

How deliveries ended:

| written | |
|---|---|
${rows(({ ends }) => ends)}

By an operator, from which state:

| action | |
|---|---|
${rows(({ byHand }) => byHand)}
${results.flatMap(({ seed, violations }) => violations.slice(0, VIOLATIONS_SHOWN).map((each) => chapterOf(seed, each))).join('')}`
}

function routeLine ({ name, weight, order, stops, holds, batch, onWish, targets, keeps, schedules, pauseAfterMs }: InboxRoute): string {
  return `* \`${name}\` (${[
    ...targets.length > 0
      ? [`\`inbox.targets\`: ${targets.map(targetPhrase).join('; ')}`]
      : [order === null ? 'in no order' : `in order by ${order === 'header' ? 'a header' : 'the body'}`],
    ...stops ? ['`onDead: stop-group`'] : [],
    ...holds ? ['`unknown: hold`'] : [],
    ...batch ? ['`batch: split`'] : [],
    ...onWish ? ['`async: allowed`, half of the requests ask for it'] : [],
    ...keeps ? [KEEPS] : [],
    ...schedules ? ['`deliverAt` in a header or `delay` in the body'] : [],
    ...pauseAfterMs === null ? [] : [`\`pauseAfter: ${pauseAfterMs}ms\`, with a consumer that is down now and then`],
    `weight ${weight}`
  ].join(', ')})`
}

const KEEPS = '`keepDelivered`'

function targetPhrase ({ name, path, topics, isOrdered, keeps }: Target): string {
  return `\`${name}\` ${[
    topics === null ? 'takes all' : `with \`when\` takes ${topics.length} of ${TOPICS.length} topics`,
    ...path === null ? [] : ['at its own path'],
    isOrdered ? 'in order' : 'in no order',
    ...keeps ? [KEEPS] : []
  ].join(', ')}`
}
