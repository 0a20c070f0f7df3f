/* eslint no-template-curly-in-string: "off" -- the configuration has variables of its own in its strings */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { banner } from '../../src/process/banner.ts'
import { changes, restartOnly } from '../../src/config/compare/changes.ts'
import type { Config } from '../../src/config/config.ts'
import { printConfig } from '../../src/config/print.ts'
import type { VerifyPolicy } from '../../src/core/policy/policy.ts'
import { signingOf, verifierOf, verifySignature } from '../../src/core/headers/signature.ts'
import { ConfigWorld, fileWith } from './world.ts'

const SECRET = 'whsec_aHVudGVyMi1odW50ZXIyLWh1bnRlcjIt'
const OTHER = 'whsec_aHVudGVyMi1odW50ZXIyLWh1bnRlcjMt'
const ofBytes = (count: number): string => Buffer.alloc(count, 7).toString('base64')

type File = Parameters<typeof fileWith>[0]
/** Where it is written, and how. */
const NAMES: ReadonlyArray<readonly [name: string, here: string, file: (verify: string) => File]> = [
  ['verify', 'routes\\[0\\]\\.idempotency\\.verify', (verify) => ({ policy: `{ verify: { ${verify} } }` })],
  ['inbox.verify', 'routes\\[0\\]\\.idempotency\\.inbox\\.verify', (verify) => ({
    policy: `{ mode: inbox, inbox: { verify: { ${verify} } } }`
  })]
]

function verifier ({ routes: [route] }: Config): VerifyPolicy {
  const { idempotency } = route ?? assert.fail()
  return (idempotency === null ? null : verifierOf(idempotency)) ?? assert.fail()
}

for (const mode of ['mode: enforce', 'mode: drop', 'mode: inbox', 'async: allowed', 'profile: relay']) {
  test(`verify is there for every route: ${mode}`, (t) => {
    const world = new ConfigWorld(t)
    assert.deepEqual(
      verifier(world.load(fileWith({ policy: `{ ${mode}, verify: { scheme: github, secret: hunter2 } }` })).config).secrets,
      ['hunter2']
    )
    const { config } = world.load(fileWith({ policy: `{ ${mode}, verify: by-key-id }` }))
    assert.equal(config.routes[0]?.idempotency?.verify, 'by-key-id')
    assert.deepEqual(world.load(fileWith({ policy: `{ ${mode} }` })).config.warnings, [])
  })
}

test('what a route says of those who sign is one of three words', (t) => {
  const world = new ConfigWorld(t)
  const said = (policy: string) => {
    const { config } = world.load(fileWith({ policy }))
    const { idempotency } = config.routes[0] ?? assert.fail()
    return [
      idempotency === null ? null : signingOf(idempotency),
      banner(config, ['here'], 'http://a', 'http://b').find((line) => line.includes(', unknown: hold'))?.split(', unknown: hold')[1]
    ]
  }
  assert.deepEqual(said('{}'), ['refused', ''])
  assert.deepEqual(said('{ verify: by-key-id }'), ['by-key-id', ', signatures not verified (by-key-id)'])
  assert.deepEqual(said('{ verify: { scheme: stripe, secret: hunter2 } }'), ['verified', ', signatures verified'])
})

test('by-key-id is called what it is, with the routes that say so', (t) => {
  const { config, effective } = new ConfigWorld(t).load(
    `${fileWith({ policy: '{ verify: by-key-id }' })}  - { name: refunds, match: { path: /r }, upstream: payments, idempotency: { verify: by-key-id } }\n  - { name: others, match: { path: /o }, upstream: payments, idempotency: {} }\n`
  )
  assert.deepEqual(config.warnings, ['verify: by-key-id on routes charges, refunds: anyone who knows a caller\'s key id and an Idempotency-Key gets the stored answer. Signatures are not verified here.'])
  assert.match(printConfig(effective), /verify: by-key-id\n/)
})

test('the old name is taken, with a word; both names are a mistake', (t) => {
  const world = new ConfigWorld(t)
  const { config } = world.load(fileWith({ policy: '{ mode: inbox, inbox: { verify: { scheme: github, secret: hunter2 } } }' }))
  assert.deepEqual(config.warnings, ['inbox.verify on route charges is now verify: write it beside mode. It applies to every request with a key, also to those that are not for the inbox.'])
  const both = '{ mode: inbox, verify: by-key-id, inbox: { verify: { scheme: github, secret: hunter2 } } }'
  assert.deepEqual(world.complaints(fileWith({ policy: both })), [
    'routes[0].idempotency.inbox.verify: conflicts with verify, which is its new name: set only one'
  ])
})

test('a word that is none is a mistake', (t) => {
  assert.deepEqual(new ConfigWorld(t).complaints(fileWith({ policy: '{ verify: by-keyid }' })), [
    'routes[0].idempotency.verify: must be by-key-id or a map'
  ])
})

for (const [name, HERE, signed] of NAMES) {
  test(`${name}: verify comes with its defaults; the secrets stand in their order`, (t) => {
    const { config } = new ConfigWorld(t).load(fileWith(signed(`scheme: standard-webhooks, secret: ${SECRET}, previousSecret: ${OTHER}`)))
    assert.deepEqual(config.routes[0]?.idempotency?.verify, {
      scheme: 'standard-webhooks',
      secrets: [SECRET, OTHER],
      toleranceMs: 300_000,
      hmac: null
    })
    const own = new ConfigWorld(t).load(
      fileWith(signed('scheme: hmac, secret: hunter2, hmac: { header: X-Our_Signature, prefix: "sha256=" }'))
    ).config
    const expected = {
      scheme: 'hmac',
      secrets: ['hunter2'],
      toleranceMs: 300_000,
      hmac: { header: 'x-our_signature', algorithm: 'sha256', encoding: 'hex', prefix: 'sha256=' }
    }
    assert.equal(
      verifier(new ConfigWorld(t).load(fileWith(signed('scheme: stripe, secret: hunter2, tolerance: 1m'))).config).toleranceMs,
      60_000
    )
    for (const bytes of [24, 64, 75]) {
      new ConfigWorld(t).load(fileWith(signed(`scheme: standard-webhooks, secret: whsec_${ofBytes(bytes)}`)))
    }
    assert.deepEqual(verifier(own), expected)
    const shown = printConfig(new ConfigWorld(t).load(fileWith(signed('scheme: hmac, secret: hunter2, hmac: { header: X-A }'))).effective)
    assert.match(shown, /hmac:\n +header: X-A\n +algorithm: sha256\n +encoding: hex\n +prefix: ""\n/)
    assert.equal(new ConfigWorld(t).load(fileWith({ policy: '{ mode: inbox }' })).config.routes[0]?.idempotency?.verify, null)
  })

  test(`${name}: secrets come from files and variables, and are printed by nobody`, (t) => {
    const world = new ConfigWorld(t)
    world.write('old', 'hunter2-old\r\n')
    const { config, effective } = world.load(fileWith(signed('scheme: stripe, secret: "${HOOK}", previousSecretFile: old')), {
      HOOK: 'hunter2-new'
    })
    assert.deepEqual(verifier(config).secrets, ['hunter2-new', 'hunter2-old'])
    const text = printConfig(effective)
    assert.ok(!text.includes('hunter2'), text)
    assert.match(text, /secret: "\*\*\*"\n +previousSecret: "\*\*\*"\n/)
    world.write('new', 'hunter2-new\n')
    assert.deepEqual(world.load(fileWith(signed('scheme: stripe, secretFile: new, previousSecretFile: old'))).config, config)
  })

  test(`${name}: what the file says of a secret is what a signature is checked with`, (t) => {
    const { config } = new ConfigWorld(t).load(fileWith(signed('scheme: github, secret: "It\'s a Secret to Everybody"')))
    const headers = ['X-Hub-Signature-256', 'sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17']
    assert.equal(verifySignature(verifier(config), headers, Buffer.from('Hello, World!'), 0).kind, 'good')
  })

  test(`${name}: a turned secret is taken by a running process and told by its route's name`, (t) => {
    const world = new ConfigWorld(t)
    const of = (verify: string) => world.load(fileWith(signed(`scheme: stripe, ${verify}`))).config
    const [before, after] = [of('secret: hunter2'), of('secret: hunter3, previousSecret: hunter2')]
    assert.deepEqual(restartOnly(before, after, 15_000), [])
    assert.deepEqual(changes(before, after), ['routes.charges'])
  })

  const wrong: ReadonlyArray<readonly [what: string, verify: string, complaint: RegExp]> = [
    ['no secret', 'scheme: github', new RegExp(`^${HERE}\\.secret: is missing; write secret or secretFile$`)],
    ['only the secret before it', 'scheme: github, previousSecret: hunter2', new RegExp(`^${HERE}\\.secret: is missing`)],
    ['an empty secret', 'scheme: github, secret: ""', new RegExp(`^${HERE}\\.secret: is empty`)],
    [
      'a secret twice',
      'scheme: github, secret: hunter2, previousSecret: hunter2',
      new RegExp(`^${HERE}\\.previousSecret: is the same as secret$`)
    ],
    [
      'a file of the secret that is not there',
      'scheme: github, secretFile: nowhere',
      new RegExp(`^${HERE}\\.secretFile: .*nowhere cannot be read \\(ENOENT\\)$`)
    ],
    [
      'a file of the one before it that is not there',
      'scheme: github, secret: hunter2, previousSecretFile: nowhere',
      new RegExp(`^${HERE}\\.previousSecretFile: .*nowhere cannot be read \\(ENOENT\\)$`)
    ],
    [
      'a secret and its file',
      'scheme: github, secret: hunter2, secretFile: nowhere',
      new RegExp(`^${HERE}\\.secretFile: conflicts with secret: set only one$`)
    ],
    ['a scheme that nobody knows', 'scheme: gitlab, secret: hunter2', new RegExp(`^${HERE}\\.scheme: `)],
    [
      'a Standard Webhooks secret that is no Base64',
      'scheme: standard-webhooks, secret: "whsec_hunter2!"',
      new RegExp(`^${HERE}\\.secret: is no Standard Webhooks secret: whsec_ and the Base64 of 24 to 75 bytes\\. If`)
    ],
    [
      'a Standard Webhooks secret that is nothing',
      'scheme: standard-webhooks, secret: whsec_',
      new RegExp(`^${HERE}\\.secret: is no Standard`)
    ],
    [
      'a Standard Webhooks key of a pair',
      'scheme: standard-webhooks, secret: whpk_aHVudGVyMg==',
      new RegExp(`^${HERE}\\.secret: is no Standard`)
    ],
    [
      'a Standard Webhooks secret that is too short',
      `scheme: standard-webhooks, secret: whsec_${ofBytes(23)}`,
      new RegExp(`^${HERE}\\.secret: is no Standard`)
    ],
    [
      'a Standard Webhooks secret that is too long',
      `scheme: standard-webhooks, secret: whsec_${ofBytes(76)}`,
      new RegExp(`^${HERE}\\.secret: is no Standard`)
    ],
    [
      'a secret in another alphabet, which reads as Base64',
      `scheme: standard-webhooks, secret: ${'0123abcd'.repeat(8)}`,
      new RegExp(`^${HERE}\\.secret: is no Standard`)
    ],
    [
      'a tolerance where no time is signed',
      'scheme: github, secret: hunter2, tolerance: 5m',
      new RegExp(`^${HERE}\\.tolerance: is not used: with scheme github no time is signed$`)
    ],
    ['the same of shopify', 'scheme: shopify, secret: hunter2, tolerance: 1m', new RegExp(`^${HERE}\\.tolerance: is not used`)],
    [
      'the same of hmac',
      'scheme: hmac, secret: hunter2, tolerance: 1m, hmac: { header: X-A }',
      new RegExp(`^${HERE}\\.tolerance: is not used`)
    ],
    [
      'the same of the one before it',
      `scheme: standard-webhooks, secret: ${SECRET}, previousSecret: "hunter2 "`,
      new RegExp(`^${HERE}\\.previousSecret: is no Standard`)
    ],
    [
      'hmac without its header',
      'scheme: hmac, secret: hunter2',
      new RegExp(`^${HERE}\\.hmac: is missing; scheme hmac needs hmac: \\{ header \\}$`)
    ],
    [
      'hmac beside another scheme',
      'scheme: github, secret: hunter2, hmac: { header: X-A }',
      new RegExp(`^${HERE}\\.hmac: is not used: scheme is github$`)
    ],
    [
      'a tolerance of nothing',
      'scheme: stripe, secret: hunter2, tolerance: 0s',
      new RegExp(`^${HERE}\\.tolerance: "0s" must be between 1s and 24h`)
    ]
  ]

  for (const [what, verify, complaint] of wrong) {
    test(`${name}: ${what} is a mistake`, (t) => {
      const told = new ConfigWorld(t).complaints(fileWith(signed(verify)))
      assert.equal(told.length, 1, told.join('\n'))
      assert.match(told[0] ?? '', complaint)
      assert.ok(!told.join().includes('hunter2'))
    })
  }
}

test('inbox.verify without an inbox is a mistake', (t) => {
  assert.deepEqual(new ConfigWorld(t).complaints(fileWith({ policy: '{ inbox: { verify: { scheme: github, secret: hunter2 } } }' })), [
    'routes[0].idempotency.inbox: is not used: mode is not inbox, and async is not allowed'
  ])
})
