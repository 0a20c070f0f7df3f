/** `npm run chaos:hunts`: hunts every deliberately broken build, one after another. Exits 1 if one is not detected. */
import { DROP_LIES, LIES } from '../broken/breaks.ts'
import { INBOX_LIES } from '../broken/inbox-lies.ts'
import { HUNTS, SCHEME_LIES } from './emphasis.ts'
import { huntInbox, INBOX_HUNTS } from './inbox/hunts.ts'
import { printed } from './report.ts'
import { runChaos } from './run.ts'

const SEED = 1

export type Lie = keyof typeof HUNTS

/** What is wrong with the hunt. null: the broken build was detected. */
export async function hunt (name: Lie): Promise<string | null> {
  const { seconds, emphasis, breaks, differ = false } = HUNTS[name]
  const result = await runChaos({ seed: SEED, seconds, gateways: 2, emphasis, differ, broken: name })
  const caught = result.violations.some(({ invariant }) => breaks.some((each) => each === invariant))
  return caught ? null : `nothing was found\n${printed(result)}`
}

function say (name: string, breaks: readonly string[], wrong: string | null): void {
  console.log(`${name}: ${wrong ?? `found out, by ${breaks.join(' or ')}`}`)
  if (wrong !== null) process.exitCode = 1
}

if (import.meta.main) {
  for (const name of [...LIES, ...DROP_LIES, ...SCHEME_LIES]) say(name, HUNTS[name].breaks, await hunt(name))
  for (const name of INBOX_LIES) say(name, INBOX_HUNTS[name].breaks, await huntInbox(name))
}
