/**
 * Every event of the log: what it means, and what an operator does. docs/reference/log-events.md is generated from this table and from
 * the calls that write the lines. Links are relative to that page. Operators alert on these names, so a change of one breaks them.
 */

interface EventText {
  readonly means: string
  readonly do: string
}

export const LOG_EVENTS = {
  'admin-error': {
    means: 'The admin port could not answer a request, for example of `/metrics`.',
    do: 'If it repeats, report it with the line.'
  },
  'answer-unreadable': {
    means: 'A stored answer cannot be decoded. Retries of this key get `outcome-unknown`, and nothing is sent.',
    do: 'Look at the record with `onceway records show`, and for damage in the database.'
  },
  'background-error': {
    means: 'Work that no request waits for failed in an unexpected way.',
    do: 'Read `error`. If it repeats, report it with the line.'
  },
  'background-failed': {
    means: 'A round of background work failed, most often because a store is away. The field `background` names the work. The next round follows by itself. Most repeats in one outage have the level `debug`.',
    do: 'Read `error`, and look at the store.'
  },
  'background-recovered': {
    means: 'The background work that failed succeeds again.',
    do: 'Nothing.'
  },
  'broken-stream-fenced': {
    means: 'An answer broke off after its record was settled as executed. The record has another owner or state by now, so it stays as it is.',
    do: 'Look at the record, and into your server whether the operation was done.'
  },
  'broken-stream-retried': {
    means: 'An answer broke off, and the store did not take the correction of its record. The gateway tries again. Until then the record says that the request was executed.',
    do: 'Look at the store.'
  },
  'certificate-loaded': {
    means: 'The files of a listener\'s certificate have changed, and new connections use them. Open connections stay open. The field `file` names the certificate, or the authorities of clients if only they changed.',
    do: 'Nothing.'
  },
  'certificate-refused': {
    means: 'The files of a listener\'s certificate have changed, and cannot be used. The earlier certificate stays until it expires.',
    do: 'Read `reason`, and follow [OncewayCertificateRefused](../guides/alerts.md#oncewaycertificaterefused).'
  },
  'claim-failed': {
    means: 'The store did not take a claim, so nothing was sent. The client gets 503. If `nothingKnows` is true and the route says `onStoreDown: forward`, the request is sent without protection.',
    do: 'Read `error`, and look at the store: [OncewayStoreDown](../guides/alerts.md#oncewaystoredown).'
  },
  'claim-lost': {
    means: 'The database acknowledged a claim, and its row is gone while the lock in Redis is there. Most often a failover lost the commit. The gateway claims the record again for its owner.',
    do: 'Look at the failover, and let commits wait for a standby: [which promise holds](../guides/deploy-with-postgres.md#which-promise-holds).'
  },
  'claim-timeout': {
    means: 'A claim took too long. Nothing was sent, and the client gets 503. If the claim succeeds later, it is released.',
    do: 'Look at the latency of the store, and at [locked rows](../guides/deploy-with-postgres.md#old-transactions).'
  },
  'config-refused': {
    means: 'A new configuration has mistakes, or changes what needs a restart. The earlier one still runs.',
    do: 'Mend what `mistakes` lists, and reload again: [OncewayReloadRefused](../guides/alerts.md#oncewayreloadrefused).'
  },
  'config-reloaded': {
    means: 'A new configuration runs. The field `changed` lists what differs from the earlier one.',
    do: 'Nothing.'
  },
  'config-remark': {
    means: 'The configuration is valid, and a part of it may not do what you expect. The message says what. `onceway check` prints the same.',
    do: 'Follow the message.'
  },
  'connections-shed': {
    means: 'New connections are closed, because `limits.connections` or the share of one client address is used up. One line in ten seconds at most, and `count` is the number since the last line.',
    do: 'Follow [OncewayShedding](../guides/alerts.md#oncewayshedding).'
  },
  'data-directory-remark': {
    means: 'Other users may read or replace what is in the data directory. The message says why.',
    do: 'Follow the message.'
  },
  'database-connection-ended': {
    means: 'The database, or something in front of it, ended an idle connection. The gateway opens another one when it needs it.',
    do: 'Nothing.'
  },
  'database-login-changed': {
    means: 'New connections to the database use the user and password that are now in `stores.postgres.urlFile`.',
    do: 'Nothing.'
  },
  'database-login-unusable': {
    means: 'The login in `stores.postgres.urlFile` cannot be used. The field `error` says why. New connections use the login that was accepted last, as long as the database accepts it.',
    do: 'Follow `error`: [rotate the password](../guides/deploy-with-postgres.md#rotate-the-password).'
  },
  'database-moved': {
    means: 'This database is a copy of another one, or has moved. It gets an installation id of its own, so Redis begins empty for it.',
    do: 'Nothing. If you did not copy or move the database, find out who did: [copies of a database](../guides/deploy-with-redis.md#copies-of-a-database).'
  },
  'database-reached': {
    means: 'The database that could not be used is in use again.',
    do: 'Nothing.'
  },
  'database-rights-missing': {
    means: 'The role of the gateway lacks rights in the database. `/readyz` answers 503 `blocked`.',
    do: 'Run the `GRANT` of the message: [rights](../guides/deploy-with-postgres.md#rights).'
  },
  'database-rights-restored': {
    means: 'The role of the gateway has its rights again.',
    do: 'Nothing.'
  },
  'database-session-shared': {
    means: 'A pooler in transaction mode gives the sessions of the gateway to others, so named statements get lost.',
    do: 'Set `stores.postgres.prepared: false`, or use PgBouncer 1.21 or newer: [PgBouncer](../guides/deploy-with-postgres.md#pgbouncer).'
  },
  'database-unreachable': {
    means: 'The database cannot be reached. The gateway tries again by itself. The log repeats the same cause after ten minutes.',
    do: 'Follow [OncewayStoreDown](../guides/alerts.md#oncewaystoredown).'
  },
  'database-unusable': {
    means: 'The database answers, and the gateway cannot serve from it. The field `error` says why. The gateway tries again by itself.',
    do: 'Follow `error`. It is also the `reason` on `/readyz`.'
  },
  'delete-copies-left': {
    means: 'A record was deleted by an operator, and Redis could not be told. It may keep a copy of the answer until the copy expires there.',
    do: 'If the key must run again at once, delete the record once more when Redis is back.'
  },
  'deliveries-recovered': {
    means: 'An inbox worker ended with messages in flight. They are delivered again, or held if the route says `unknown: hold`. The field `held` counts those.',
    do: 'Find out why the worker ended. Held messages have a line `message-held` each.'
  },
  delivery: {
    means: 'A delivery of an inbox ended. The field `result` is `delivered` or `again`.',
    do: 'Nothing. If `again` repeats, look at `status` and `error`, and at the consumer.'
  },
  'delivery-abandoned': {
    means: 'The gateway ended before the store took the result of a delivery. The message is delivered again.',
    do: 'Nothing, if the consumer handles duplicates. If it repeats, look at the store.'
  },
  'delivery-error': {
    means: 'A delivery failed inside the gateway in an unexpected way. The message is delivered again, or held, once the name of this worker has ended.',
    do: 'Read `error`. If it repeats, report it with the line.'
  },
  'delivery-overtaken': {
    means: 'A delivery ended after another worker or an operator had taken over its message. The consumer may get the message twice.',
    do: 'Nothing, if the consumer handles duplicates. If it repeats, look for frozen processes and a slow store.'
  },
  'delivery-settle-retried': {
    means: 'The store did not take the result of a delivery. The gateway tries again.',
    do: 'Read `error`, and look at the store.'
  },
  'drain-started': {
    means: 'The process got a signal to end, and drains: [shutdown](../guides/deploy-in-containers.md#shutdown).',
    do: 'Nothing.'
  },
  'drain-timeout': {
    means: 'The drain took longer than `drain.timeout`. Executions that still run are cut off, and their outcome may be unknown.',
    do: 'Make `drain.timeout` and the [grace period](../guides/deploy-in-containers.md#shutdown) longer than your server takes.'
  },
  'endpoint-paused': {
    means: 'No delivery of this inbox was taken for `inbox.pauseAfter`. The gateway paused it. Messages are accepted, and one of them tries again every `backoff.longest`.',
    do: 'Mend the consumer. The next trial resumes the inbox, or `onceway inbox resume` does: [a consumer that fails for long](../guides/accept-now-deliver-later.md#a-consumer-that-fails-for-long).'
  },
  'endpoint-resumed': {
    means: 'A consumer took a message again, and the pause that the gateway made is over. Or `inbox.pauseAfter` is no longer configured.',
    do: 'Nothing.'
  },
  'id-scheme-in-use': {
    means: 'The gateway makes ids by this scheme from now on: [schemes of ids](../concepts/identity.md#schemes-of-ids).',
    do: 'Nothing.'
  },
  'id-scheme-unusable': {
    means: 'The ids in the database need a secret or a release that this gateway does not have. Guarded requests get 503, and `/readyz` answers `blocked`.',
    do: 'Follow the message: [the secret](../concepts/identity.md#the-secret).'
  },
  'inbox-lease-lost': {
    means: 'An inbox worker could not renew its lease in time. Other workers take what it had not sent yet.',
    do: 'Look at the latency of the store, and for processes that were frozen.'
  },
  'inbox-route-missing': {
    means: 'Messages wait for a route that is not in the configuration, or has no inbox there. No gateway delivers them. The log says so once for each route.',
    do: 'Put the route back, or discard its messages: [retry or discard](../guides/accept-now-deliver-later.md#retry-or-discard-messages).'
  },
  'inbox-unavailable': {
    means: 'The store of the inbox did not answer, so nothing was sent to the upstream.',
    do: 'Read `error`, and look at the store.'
  },
  'inbox-wake-impossible': {
    means: 'A pooler shares the sessions of the database, so the gateway cannot listen for new messages. It looks each second instead. Messages of other processes may wait a second longer.',
    do: 'Nothing, or connect without a pooler in transaction mode: [inboxes](../guides/deploy-with-postgres.md#inboxes).'
  },
  'inbox-wake-lost': {
    means: 'The connection that tells of new messages ended. Until it is back every process looks each second.',
    do: 'Look at the database if it repeats.'
  },
  'inbox-wake-restored': {
    means: 'The database tells of new messages again.',
    do: 'Nothing.'
  },
  'indexes-build': {
    means: 'A large table gets indexes. The gateway serves meanwhile. Searches of operators and takes from an inbox are slower until they are there.',
    do: 'Nothing.'
  },
  'indexes-build-failed': {
    means: 'Indexes of a large table could not be built. Searches of operators and takes from an inbox are slow. Requests do not need these indexes.',
    do: 'Read `error`, and run `onceway migrate`. A transaction that is open for a long time delays the build.'
  },
  'indexes-built': {
    means: 'The indexes are built.',
    do: 'Nothing.'
  },
  'jwt-keys-unavailable': {
    means: 'The keys that verify tokens cannot be read. Requests that need them get 503 `scope-unavailable`.',
    do: 'Check the `file` or `url` of the key set: [tokens that expire](../guides/deploy-in-containers.md#tokens-that-expire).'
  },
  'kept-requests-dropped': {
    means: 'A route keeps more requests of delivered messages than `inbox.maxKept` or `inbox.maxKeptBytes` allows. The oldest were deleted before `inbox.keepDelivered` was over. The field `count` says how many.',
    do: 'Raise the bound, or shorten `inbox.keepDelivered`: [replays](../guides/accept-now-deliver-later.md#replay-delivered-messages).'
  },
  'key-issue-error': {
    means: 'The gateway could not issue a key, because of an unexpected error. The client gets 503 and may ask again.',
    do: 'Read `error`. If it repeats, report it with the line.'
  },
  'key-mistyped': {
    means: 'A request has no key, and a header whose name looks like the one for the key. One line a minute at most for each name, and `unsaid` counts the others.',
    do: 'Let the client send the header that `expected` names.'
  },
  'lease-lost': {
    means: 'An execution lost its lease while it ran. Its outcome may be unknown, or another owner has its record.',
    do: 'Follow [OncewayLeasesLost](../guides/alerts.md#oncewayleaseslost).'
  },
  'lease-renewal-failed': {
    means: 'The store did not renew the leases of running executions. The gateway tries again until they end.',
    do: 'Read `error`, and look at the store.'
  },
  'log-lines-dropped': {
    means: 'Whatever takes the log of this process stood still, was too slow, or had no room. 16 MiB of lines waited, and `lines` more were left out.',
    do: 'Look at what takes it: a full disk, a stopped collector, a terminal that holds the output.'
  },
  'mark-failed': {
    means: 'Mode drop: the store did not take the mark of an event. The event is forwarded without a mark if `onStoreDown` is `forward`. Otherwise the sender gets 503.',
    do: 'Read `error`, and look at the store of the marks.'
  },
  'mark-given-up': {
    means: 'Mode drop: the store did not take a change of a mark, and the gateway gave up. The mark ends by itself.',
    do: 'Look at the store of the marks: [what may be doubled or lost](../guides/drop-duplicates.md#what-may-be-doubled-or-lost).'
  },
  'mark-pending': {
    means: 'Mode drop: an event went through, and the store did not take its mark in time. Its duplicates may go through too.',
    do: 'Look at the store of the marks.'
  },
  'mark-timeout': {
    means: 'Mode drop: the store took too long for the mark of an event. The event is forwarded without a mark if `onStoreDown` is `forward`. Otherwise the sender gets 503.',
    do: 'Look at the latency of the store of the marks.'
  },
  'message-dead': {
    means: 'A message was given up. Its deliveries failed too often or for too long, or its consumer refused it. The field `error` says which.',
    do: '[Retry or discard it](../guides/accept-now-deliver-later.md#retry-or-discard-messages).'
  },
  'message-held': {
    means: 'A delivery has an unknown outcome, and the route has `unknown: hold`. The message waits for an operator.',
    do: 'Look into the consumer, then [discard or retry the message](../guides/accept-now-deliver-later.md#held-messages).'
  },
  'message-refused': {
    means: 'The store did not accept a message, and the sender gets 503. If `inDoubt` is true, the message may be stored all the same.',
    do: 'Read `error`, and look at the store. The sender may retry with the same key.'
  },
  'message-state-error': {
    means: 'A client asked for the state of a message, and the store could not answer. The client gets 503.',
    do: 'Read `error`, and look at the store.'
  },
  'oidc-unavailable': {
    means: 'The OpenID Connect provider cannot be reached, or its answer is wrong. Operators cannot sign in with it. Tokens and sessions still work.',
    do: 'Read `error`, and look at the provider and at `admin.auth.oidc`.'
  },
  'operator-change': {
    means: 'An operator asked for a change through the operator API, and it was done. The audit has the change itself (`onceway audit`).',
    do: 'Nothing.'
  },
  'operator-signed-in': {
    means: 'An operator signed in to the console.',
    do: 'Nothing. If you do not know the name, end its access.'
  },
  'operator-tokens-read': {
    means: 'The operator tokens of `admin.auth.tokensFile` were read, because the file is new or has changed. Sessions of removed tokens have ended.',
    do: 'Nothing.'
  },
  'operator-tokens-refused': {
    means: 'The file of operator tokens cannot be read, or has a mistake. The `entries` that were read before still count.',
    do: 'Mend what `error` says. The file is read again by itself.'
  },
  'outcome-unknown': {
    means: 'A request may or may not have been executed. The fields `stage` and `code` say why. Retries get `outcome-unknown`, unless the route says `unknown: retry`.',
    do: 'Follow [Resolve an unknown outcome](../guides/resolve-an-unknown-outcome.md).'
  },
  'pass-through-failed': {
    means: 'An unguarded request got no complete answer from the upstream. The fields `kind` and `fault` say why.',
    do: 'Look at the upstream. If `kind` is `no-place`, see [limits and overload](../guides/alerts.md#limits-and-overload).'
  },
  passed: {
    means: 'A request passed through, or a tunnel ended. [`log.access`](configuration.md#log) asks for these lines and chooses their fields. `status` is `null` if there was no answer.',
    do: 'Nothing. If `log.access.sample` is below 1, count by `onceway_http_requests_total` instead.'
  },
  'policy-differs': {
    means: 'Another gateway serves a route with another setting. Both are safe: each does as its own configuration says.',
    do: 'Finish the roll-out: [while gateways differ](../guides/reload.md#while-gateways-differ).'
  },
  'policy-sends-again': {
    means: 'Another gateway serves a route with another setting. One of them may send again what the other would hold.',
    do: 'Give all gateways the same setting: [while gateways differ](../guides/reload.md#while-gateways-differ).'
  },
  'policy-splits-keys': {
    means: 'Another gateway looks for the same key in another place. One key can be executed by both.',
    do: 'Stop all gateways with the old setting: [while gateways differ](../guides/reload.md#while-gateways-differ).'
  },
  'probe-error': {
    means: 'The gateway could not ask about an unknown outcome, for example because the store is away. It asks again.',
    do: 'Read `error`, and look at the store.'
  },
  'probe-given-up': {
    means: 'The upstream did not say within `probe.giveUpAfter` what became of a request. The record is held.',
    do: '[Resolve it](../guides/resolve-an-unknown-outcome.md).'
  },
  'probe-impossible': {
    means: 'The gateway cannot ask about a record. Its question was for another upstream, or another release wrote it. The gateway tries again, at longer and longer intervals.',
    do: 'Put the upstream of the route back, or [resolve the record](../guides/resolve-an-unknown-outcome.md).'
  },
  'probe-settled': {
    means: 'The upstream said what became of a request of unknown outcome. The record is settled, or released.',
    do: 'Nothing.'
  },
  'probe-undecided': {
    means: 'The upstream did not say yet what became of a request of unknown outcome. The gateway asks again after `afterMs`.',
    do: 'Nothing. If it repeats, look at `why` and at what the upstream answers.'
  },
  'promise-strict': {
    means: 'The settings of the database keep what it acknowledged.',
    do: 'Nothing.'
  },
  'promise-weakened': {
    means: 'The settings of the database allow it to forget what it acknowledged. The field `reasons` says which.',
    do: 'Follow [OncewayPromiseWeakened](../guides/alerts.md#oncewaypromiseweakened).'
  },
  'records-orphaned': {
    means: 'The new configuration no longer finds some records of the earlier one, so their retries would be executed again. The message says which.',
    do: 'If retries of them may still come, take the change back: [while gateways differ](../guides/reload.md#while-gateways-differ).'
  },
  'redis-command-failed': {
    means: 'Redis did not answer a command, or refused it. The request goes on with the database.',
    do: 'Nothing. If it repeats, look at Redis.'
  },
  'redis-evicts': {
    means: 'Redis deletes keys when it is full. Lost locks and copies cost round trips to the database.',
    do: 'Set `maxmemory-policy noeviction`.'
  },
  'redis-in-use': {
    means: 'The gateway uses Redis from now on.',
    do: 'Nothing.'
  },
  'redis-lost': {
    means: 'Redis failed, and the gateway goes on with the database alone. Events of `mode: drop` with marks in Redis get 503.',
    do: 'Follow [OncewayStoreDown](../guides/alerts.md#oncewaystoredown).'
  },
  'redis-notifications-forbidden': {
    means: 'The user of the gateway may not publish or subscribe in Redis. Duplicates that wait for an answer ask the database now and then.',
    do: 'Give the user the [rights](../guides/deploy-with-redis.md#rights).'
  },
  'redis-shared': {
    means: 'Gateways of another database use this Redis under the same installation id. One of the databases is a copy of the other. The gateway does not use Redis any more.',
    do: 'Give one of them another Redis, or another `stores.redis.prefix`: [copies of a database](../guides/deploy-with-redis.md#copies-of-a-database).'
  },
  'redis-unreachable': {
    means: 'Redis cannot be reached. The gateway goes on with the database alone, and tries again by itself.',
    do: 'Follow [OncewayStoreDown](../guides/alerts.md#oncewaystoredown).'
  },
  'redis-unshared': {
    means: 'No gateway of another database uses this Redis any more. It is used again.',
    do: 'Nothing.'
  },
  'redis-unusable': {
    means: 'Redis answers, and the gateway cannot use it. For example a right is missing, or it is full or too old. The field `error` says why. The gateway goes on with the database alone.',
    do: 'Follow `error`. The [rights](../guides/deploy-with-redis.md#rights) are listed.'
  },
  'reload-skipped': {
    means: 'A SIGHUP did nothing, because the process drains or was started without `--config`.',
    do: 'Nothing. Reload the processes that have a configuration file.'
  },
  request: {
    means: 'A guarded request was answered. One line for each, with its `outcome` and its times in milliseconds.',
    do: 'Nothing. The [outcomes](metrics.md#requests) say what each means.'
  },
  'request-error': {
    means: 'A guarded request failed inside the gateway in an unexpected way. The client gets `outcome-unknown`.',
    do: 'Read `error`. If it repeats, report it with the line.'
  },
  'requests-shed': {
    means: 'The event loop is later than `limits.eventLoopDelay`, and requests get 503 before anything is claimed. One line in ten seconds at most, and `count` is the number since the last line.',
    do: 'Follow [OncewayShedding](../guides/alerts.md#oncewayshedding).'
  },
  'response-error': {
    means: 'A request could not be taken up, or its answer could not be written, because of an unexpected error. The connection of its client was closed. The record is not affected.',
    do: 'Read `error`. If it repeats, report it with the line.'
  },
  'route-differs': {
    means: 'Another gateway guards a route that this one does not have. If this one takes the same requests by another name, or passes them through, one key can be executed by both.',
    do: 'Finish the roll-out: [while gateways differ](../guides/reload.md#while-gateways-differ).'
  },
  'scope-field-uncounted': {
    means: 'A caller without a credential shares its keys with all others. The named field may tell such callers apart, and does not count for the scope.',
    do: 'If the field names callers, set what `configure` says.'
  },
  'scope-warning': {
    means: 'The scheme of an `Authorization` header is not known, so the whole header tells callers apart.',
    do: 'If the header differs between retries of one caller, configure the scope: [whose key it is](../concepts/identity.md#whose-key-it-is).'
  },
  'sent-unprotected': {
    means: 'The stores are down and the route says `onStoreDown: forward`. The request was sent without protection, so a retry may be executed again.',
    do: 'Follow [OncewayStoreDown](../guides/alerts.md#oncewaystoredown).'
  },
  'settle-fenced': {
    means: 'A settle came too late, because the record had another owner or state by then. Clients get what is stored, or the answer with `Idempotency-Stored: false`.',
    do: 'Follow [OncewayLeasesLost](../guides/alerts.md#oncewayleaseslost).'
  },
  'settle-pending': {
    means: 'The store did not take an outcome in time. The client gets the answer with `Idempotency-Stored: false`, and the gateway goes on settling.',
    do: 'Follow [OncewayAnswersUnsettled](../guides/alerts.md#oncewayanswersunsettled).'
  },
  'settle-retried': {
    means: 'The store did not take an outcome. The gateway tries again.',
    do: 'Read `error`, and follow [OncewaySettleRetries](../guides/alerts.md#oncewaysettleretries).'
  },
  'settled-late': {
    means: 'An answer that was given unsettled is stored now. Retries get it.',
    do: 'Nothing.'
  },
  'settled-otherwise': {
    means: 'An answer that was given unsettled could not be stored as it was. The field `came` says why: it was fenced, the store refused its content, or the process ended.',
    do: 'Look at the record: `onceway records show`.'
  },
  'sign-in-failed': {
    means: 'Somebody showed a wrong operator token, or was refused at a sign-in. The field `why` says why. After some failures the address gets 429 for a minute.',
    do: 'Nothing for a mistyped token. If it repeats, look at who `from` is.'
  },
  'spans-not-sent': {
    means: 'The collector of `telemetry.otlp` takes no spans. They are left out, and requests go on. `onceway_spans_total` counts them.',
    do: 'Read `error`, and look at the collector, its address and its credential.'
  },
  'spans-sent-again': {
    means: 'The collector takes spans again.',
    do: 'Nothing.'
  },
  'store-clock-ahead': {
    means: 'The clock of the store stepped ahead. Nothing lapses, expires or is swept until it is right.',
    do: 'Follow [OncewayClockAhead](../guides/alerts.md#oncewayclockahead).'
  },
  'store-clock-believed': {
    means: 'The gateway believes the clock of the store again, after a step ahead. The message says why.',
    do: 'Nothing.'
  },
  'tenant-not-postponed': {
    means: 'A consumer asks for a pause for one tenant (`inbox.retryAfter`), and the store could not be told. The next answer of this kind tells it.',
    do: 'Look at the latency of the store.'
  },
  'tenant-postponed': {
    means: 'A consumer asks for a pause for one tenant (`inbox.retryAfter`). `count` waiting messages were put off for `inMs`.',
    do: 'Nothing.'
  },
  'tls-handshake-failed': {
    means: 'Clients got no connection, because their TLS handshakes failed. `reasons` has counts since the last line, and `code` is the last cause. One line in ten seconds at most.',
    do: 'Follow [handshakes that fail](../guides/tls.md#handshakes-that-fail).'
  },
  'ttl-bounded': {
    means: 'The upstream asked by `Idempotency-Policy` for a `ttl` that the route cannot keep. The answer is kept for `ttlSeconds` instead.',
    do: 'Let the upstream ask for a `ttl` within the bounds.'
  },
  'ttl-unreadable': {
    means: 'The upstream sent an `Idempotency-Policy` whose `ttl` is no whole number of seconds. The `retention` of the route counts.',
    do: 'Mend the header in the upstream.'
  },
  'unknown-forgotten': {
    means: 'Unresolved records reached the end of `unknownRetention`, so their keys can run again.',
    do: 'Follow [OncewayUnknownForgotten](../guides/alerts.md#oncewayunknownforgotten).'
  },
  'unsettled-drained': {
    means: 'The store takes answers again, and guarded requests are served.',
    do: 'Nothing.'
  },
  'unsettled-full': {
    means: 'Answers that wait for the store fill `limits.unsettledBytes`. New guarded requests get 503.',
    do: 'Follow [OncewayAnswersUnsettled](../guides/alerts.md#oncewayanswersunsettled).'
  },
  'worker-died': {
    means: 'A worker ended, without a drain or with an error. Another one takes its place, unless the gateway drains. What the worker had sent becomes unknown when its lease ends.',
    do: 'Look at `code`, `signal` and `reason`, and at the memory of the machine.'
  },
  'worker-ended': {
    means: 'A worker ended after its drain.',
    do: 'Nothing.'
  },
  'worker-ready': {
    means: 'A worker serves.',
    do: 'Nothing.'
  },
  'worker-refused-config': {
    means: 'A worker did not take a new configuration. It drains, and another one with the new configuration takes its place.',
    do: 'Read `reason`. If it repeats, report it with the line.'
  },
  'worker-started': {
    means: 'The primary started a worker. It serves at `worker-ready`.',
    do: 'Nothing.'
  },
  'workers-killed': {
    means: 'Workers did not drain in time and were ended. Outcomes of what they had sent become unknown.',
    do: 'Find out what your server takes so long for, or make `drain.timeout` longer.'
  }
} as const satisfies Readonly<Record<string, EventText>>

export type LogEvent = keyof typeof LOG_EVENTS
