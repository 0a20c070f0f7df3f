/**
 * Reports the policies of this gateway's routes to the other gateways (gateway/shared/registration.ts), and logs each
 * difference once. It is a warning if a key could be looked for in two places, or be sent again. Other differences are
 * only information during a roll-out.
 */
import { ASPECTS, divides, resends } from '../core/protocol/aspects.ts'
import type { Aspect } from '../core/protocol/aspects.ts'
import type { Gateway } from '../gateway/gateway.ts'
import type { DifferingRoute } from '../ports/registry.ts'
import { Service } from './service.ts'

/** A roll-out takes minutes. A round reads the differences, and usually there are none. */
const EVERY_MS = 15_000
/** The most differences that are kept. Further ones are logged when some of these are gone. */
const LOGGED_MAX = 1_000

/** `logs` false: another process of the same gateway logs the differences. */
export function registrar (gateway: Gateway, logs = true): Service {
  const { clock, log } = gateway.deps
  let logged = new Set<string>()
  return new Service({
    name: 'registering',
    everyMs: EVERY_MS,
    clock,
    log,
    round: async () => {
      await gateway.registration.check()
      const { registry, meter } = gateway.deps
      const differences = (await registry.differing(gateway.registration.gateway)).flatMap((other) => differencesOf(gateway, other))
      meter.differing(countsOf(differences))
      const lines = new Map(differences.slice(0, LOGGED_MAX).map((each) => [JSON.stringify(each), each]))
      for (const [line, each] of lines) if (logs && !logged.has(line)) logDifference(gateway, each)
      logged = new Set(lines.keys())
      return false
    }
  })
}

/** `route`: only one of the two gateways has it. */
type Differing = Aspect | 'route'

interface Difference {
  readonly instance: string
  readonly gateway: string
  readonly route: string
  readonly aspect: Differing
  readonly here: string
  readonly there: string
  readonly resends: boolean
}

function differencesOf (gateway: Gateway, { gateway: other, instance, route, policy }: DifferingRoute): Difference[] {
  const mine = gateway.registration.policyOf(route)
  if (mine === null) return [{ instance, gateway: other, route, aspect: 'route', here: 'none', there: 'guarded', resends: false }]
  // Another build may not report this aspect. Then it cannot be compared.
  return ASPECTS.flatMap((aspect) => {
    const there = policy[aspect]
    return there === undefined || there === mine[aspect]
      ? []
      : [{ instance, gateway: other, route, aspect, here: mine[aspect], there, resends: resends(aspect, mine, policy) }]
  })
}

function countsOf (differences: readonly Difference[]): Map<Differing, number> {
  return new Map((['route', ...ASPECTS] as const).map((aspect) => [
    aspect,
    new Set(differences.filter((each) => each.aspect === aspect).map(({ route }) => route)).size
  ]))
}

function logDifference ({ deps: { log } }: Gateway, { instance, route, aspect, here, there, resends: sentAgain }: Difference): void {
  const fields = { route, aspect, here, there, other: instance }
  if (aspect === 'route') {
    log.warn(
      { event: 'route-differs', ...fields },
      `gateway ${instance} guards route ${route}, and this gateway has none of that name: where it takes the same requests by another name, or passes them through, one key can be executed by both`
    )
  } else if (divides(aspect, here, there)) {
    log.warn(
      { event: 'policy-splits-keys', ...fields },
      `gateway ${instance} serves route ${route} with another ${ABOUT[aspect]}: until they agree one key is looked for in two places, and can be executed by both`
    )
  } else if (sentAgain) {
    log.warn(
      { event: 'policy-sends-again', ...fields },
      `gateway ${instance} serves route ${route} with another ${ABOUT[aspect]}: until they agree, what the one would hold may be sent again by the other`
    )
  } else {
    log.info(
      { event: 'policy-differs', ...fields },
      `gateway ${instance} serves route ${route} with another ${ABOUT[aspect]}: each does as its own configuration says`
    )
  }
}

const ABOUT: Readonly<Record<Aspect, string>> = {
  mode: 'mode',
  key: 'key source',
  scope: 'scope',
  host: 'upstream.host',
  marks: 'store of marks',
  fingerprint: 'fingerprint',
  unknown: '`unknown`',
  keep: 'choice of what is kept',
  retention: 'retention',
  lease: 'lease'
}
