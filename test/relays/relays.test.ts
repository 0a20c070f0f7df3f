/**
 * Every relay of docs/guides/webhook-recipes.md, on its recipe, while its consumer is slow, down, at fault, or killed: nothing is lost,
 * nothing dead-lettered, nothing executed twice. And what becomes of them without the gateway, so that this can fail.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { GuardedRoute } from '../../src/core/policy/policy.ts'
import type { Plan } from './consumer.ts'
import { recipes } from './recipes.ts'
import { NO_HARM, relayed } from './simulated.ts'
import type { Harm } from './simulated.ts'
import { STAND_INS } from './stand-ins.ts'
import type { StandIn } from './stand-ins.ts'

const RECIPES = recipes()
const MINUTE = 60_000

/** As slow as to be asked again at least twice meanwhile. */
const slow = ({ timeoutMs }: StandIn): Plan => ({ executesMs: 2.5 * timeoutMs })
const SITUATIONS: Readonly<Record<string, (relay: StandIn) => Plan>> = {
  'slower than its relay waits': slow,
  'down for a minute': () => ({ executesMs: 50, down: { fromMs: 0, untilMs: MINUTE } }),
  'answering 400 until it is mended, ten minutes later': () => ({ executesMs: 50, mendedAtMs: 10 * MINUTE }),
  'killed while it executes, and back after twenty seconds': () => ({
    executesMs: 2_000,
    killed: true,
    down: { fromMs: 3_000, untilMs: 23_000 }
  })
}

function recipeOf ({ route }: StandIn): GuardedRoute {
  const recipe = RECIPES.get(route)
  assert.ok(recipe !== undefined, `docs/guides/webhook-recipes.md has no route ${route}`)
  return recipe
}

function harmOf ({ lost, deadLettered, doubled, together }: Harm): Harm {
  return { lost, deadLettered, doubled, together }
}

/** The relays to which some of this happens. */
async function relaysWith (
  harm: keyof Harm,
  plan: (relay: StandIn) => Plan,
  guardOf: (relay: StandIn) => GuardedRoute | null
): Promise<string[]> {
  const all = await Promise.all(STAND_INS.map(async (relay) => ({ relay, harm: await relayed(relay, guardOf(relay), plan(relay)) })))
  return all.filter((each) => each.harm[harm].length > 0).map(({ relay }) => relay.route)
}

test('every recipe has its stand-in', () => {
  assert.deepEqual(Array.from(RECIPES.keys()).sort(), STAND_INS.map(({ route }) => route).sort())
})

for (const relay of STAND_INS) {
  test(`${relay.route}: the route fits between the relay's time-out and its last attempt`, () => {
    const { idempotency: { profile, inFlight, answerWithinMs, retentionMs }, upstream } = recipeOf(relay)
    assert.equal(profile, 'relay')
    assert.ok(inFlight.waitMs < answerWithinMs && answerWithinMs < relay.timeoutMs)
    assert.ok(upstream.timeoutMs > relay.timeoutMs)
    assert.ok(relay.horizonMs === Infinity || retentionMs > relay.horizonMs)
  })

  for (const [situation, plan] of Object.entries(SITUATIONS)) {
    test(`${relay.route} loses, dead-letters and doubles nothing while its consumer is ${situation}`, async () => {
      assert.deepEqual(harmOf(await relayed(relay, recipeOf(relay), plan(relay))), NO_HARM)
    })
  }

  test(`${relay.route} may itself give up waiting, again and again`, async () => {
    const recipe = recipeOf(relay)
    const patient = {
      ...recipe,
      idempotency: {
        ...recipe.idempotency,
        answerWithinMs: recipe.upstream.timeoutMs,
        inFlight: { waitMs: 2 * relay.timeoutMs, status: 503 }
      }
    }
    assert.deepEqual(harmOf(await relayed(relay, patient, slow(relay))), NO_HARM)
  })
}

test('without the gateway a slow consumer executes the same message twice, whoever the relay is', async () => {
  assert.deepEqual(await relaysWith('doubled', slow, () => null), STAND_INS.map(({ route }) => route))
})

test('whose relay takes a 400 for the last word, loses the message to the dead letters where the 400 is passed on', async () => {
  const passing = (relay: StandIn): GuardedRoute => {
    const recipe = recipeOf(relay)
    return { ...recipe, idempotency: { ...recipe.idempotency, onRelease: { action: 'pass', status: 503 } } }
  }
  const mended = SITUATIONS['answering 400 until it is mended, ten minutes later'] as (relay: StandIn) => Plan
  assert.deepEqual(await relaysWith('deadLettered', mended, passing), [
    'knative', 'cloudevents-webhook', 'sns', 'eventbridge', 'eventbridge-pipes', 'event-grid', 'dialpad'
  ])
})

test('a success whose answer was not kept acknowledges every relay: its status, and no body', async () => {
  const keepingNoBody = (relay: StandIn): GuardedRoute => {
    const recipe = recipeOf(relay)
    return { ...recipe, idempotency: { ...recipe.idempotency, keep: { ...recipe.idempotency.keep, body: false } } }
  }
  const harmed = await Promise.all(STAND_INS.map(async (relay) => ({
    route: relay.route,
    ...harmOf(await relayed(relay, keepingNoBody(relay), slow(relay)))
  })))
  assert.deepEqual(harmed, STAND_INS.map(({ route }) => ({ route, ...NO_HARM })))
})
