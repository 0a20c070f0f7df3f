/** docs/reference/presets.md: the rows of src/core/key/presets.ts, with what they cannot say of themselves. */
import { spelledName } from '../src/core/headers/fields.ts'
import type { Preset, PresetKey } from '../src/core/policy/key-source.ts'
import { PRESETS } from '../src/core/key/presets.ts'

interface About {
  /** Who sends it. */
  readonly sender: string
  /** What a row has in code and not in data. */
  readonly note?: string
}

const ABOUT: Readonly<Record<string, About>> = {
  cloudevents: {
    sender: 'CloudEvents 1.0.2 over HTTP',
    note: 'Header values are percent-decoded. In structured mode the body counts. A batch gets 400.'
  },
  'standard-webhooks': { sender: 'Standard Webhooks 1.0.0' },
  svix: { sender: 'Svix' },
  github: { sender: 'GitHub webhooks' },
  gitlab: { sender: 'GitLab webhooks' },
  shopify: { sender: 'Shopify webhooks', note: 'An event comes once for each topic that is subscribed.' },
  sns: {
    sender: 'Amazon SNS, HTTP(S) subscriptions',
    note: 'Types other than `Notification` pass unguarded, such as subscription confirmations.'
  },
  sqsd: { sender: 'Amazon SQS by the Elastic Beanstalk worker (sqsd)' },
  pubsub: { sender: 'Google Pub/Sub push', note: 'The headers are those of unwrapped messages.' },
  eventgrid: {
    sender: 'Azure Event Grid',
    note: 'Only requests with `Aeg-Event-Type` have a key. Types other than `Notification` (the validation handshake) and requests with several events pass unguarded.'
  },
  eventbridge: { sender: 'Amazon EventBridge, API destinations' },
  'stripe-event': { sender: 'Stripe webhooks' },
  square: { sender: 'clients of the Square API' },
  'debezium-outbox': { sender: 'Debezium outbox events, HTTP sink', note: 'The header is Base64.' },
  outpost: { sender: 'Hookdeck Outpost' },
  convoy: { sender: 'Convoy' },
  'cloud-tasks': { sender: 'Google Cloud Tasks, HTTP targets' },
  paypal: { sender: 'clients of the PayPal API' },
  repeatability: {
    sender: 'clients by OASIS Repeatable Requests 1.0',
    note: '`Repeatability-Client-Id` may be absent. If the first sending is older than the window less 5 minutes, the request gets 412 `key-too-old`. Answers have `Repeatability-Result`.'
  }
}

const HEAD = `# Presets

<!-- Made by "npm run generate" from src/core/key/presets.ts and scripts/presets.ts; do not edit. -->

A preset names a sender. It says where the sender's key is, whose key it is, and what is compared. Write its name in \`key.from\`:

\`\`\`yaml
    idempotency: { profile: relay, key: { from: github, required: true } }
\`\`\`

`

const FOOT = `
- **Several sources.** \`key.from\` takes a list. The first source that yields a key wins. If presets of a list disagree about the scope or the comparison, the
  route must set \`scope\` or \`fingerprint\` itself.
- **The route wins.** A preset sets \`scope\`, \`fingerprint\` and \`onMismatch\` only where the route does not.
- **Prefix.** A key of a sender's event begins with the preset's name (\`github:72d3…\`), so two senders on one route cannot collide. A client's own key has no prefix.
- **Two parts.** Where the key has several parts, all of them must be there. Without the first header, the request has no key of this preset.
- **Unguarded.** A request that passes has \`Idempotency-Status: ignored\`, and \`onceway_passed_requests_total{route,preset,why}\` counts it.

How to set up each sender is in [webhook-recipes.md](../guides/webhook-recipes.md). Other key sources are in
[receive-webhooks.md](../guides/receive-webhooks.md).
`

export function presetsPage (): string {
  const missing = [...PRESETS.keys()].filter((name) => !Object.hasOwn(ABOUT, name))
  const stray = Object.keys(ABOUT).filter((name) => !PRESETS.has(name))
  if (missing.length + stray.length > 0) {
    throw new Error(`scripts/presets.ts has no sender of ${missing.join(', ') || 'none'}, and one too many: ${stray.join(', ') || 'none'}`)
  }
  const rows = Array.from(PRESETS.values(), rowOf)
  return `${HEAD}| \`key.from\` | sender | key | scope | compared | note |\n|---|---|---|---|---|---|\n${rows.join('\n')}\n${FOOT}`
}

function rowOf (preset: Preset): string {
  const { sender, note = '' } = ABOUT[preset.name] ?? { sender: '' }
  const compared = preset.fingerprint === 'target'
    ? 'method, target, host'
    : `by the profile${preset.mismatchStatus === undefined ? '' : `; another request gets ${preset.mismatchStatus}`}`
  return `| \`${preset.name}\` | ${sender} | ${preset.keys.map(placeOf).join('; else ')} | ${[preset.scope].flat().map((part) => `\`${part}\``).join(', ')} | ${compared} | ${note} |`
}

function placeOf (key: PresetKey): string {
  switch (key.kind) {
    case 'header': return `\`${spelledName(key.name)}\``
    case 'custom': return [
      key.headers.map((name) => `\`${spelledName(name)}\``).join(' and '),
      key.pointers.length === 0 ? '' : `${key.pointers.map((pointer) => `\`/${pointer.join('/')}\``).join(' and ')} of the body`
    ].filter((text) => text !== '').join('; else ')
    case 'json': return `\`${key.written}\` of the body`
    case 'template': return 'a template'
  }
}
