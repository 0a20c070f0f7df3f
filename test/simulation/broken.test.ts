/**
 * Each deliberately broken build (test/broken) is caught within ten thousand schedules, by an invariant that it breaks. The command that
 * the simulation prints reproduces the failure.
 */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { test } from 'node:test'
import { breakNamed } from '../broken/breaks.ts'
import { CAUGHT } from './caught.ts'

const SCHEDULES_MAX = 10_000
/**
 * Where the rarer ones were seen first: the search begins a little before, and takes a second instead of ten. Whatever changes
 * the schedules moves these places, and costs nothing but time.
 */
const BEGINS_AT: Readonly<Record<string, number>> = {
  'ignore-lease': 180,
  'reread-in-doubt': 390,
  'probe-frees-at-once': 1_420,
  'probe-silence-is-no': 1_750,
  'probe-overwrites': 1_700,
  'simulated-unvouched': 340,
  'simulated-renewals-pass': 430,
  'own-policy-only': 250,
  'reads-are-contact': 1_100,
  'any-time-believed': 650,
  'generations-alike': 120,
  'hops-are-the-application': 600,
  'past-lives-on': 13_100,
  'any-scheme-accepts': 560,
  'lost-and-forgotten': 440
}

/** Beside the rules that a break is said to break: those by which only a simulation sees it. */
const SEEN_BY: Readonly<Record<string, readonly string[]>> = {
  'ignore-lease': ['I1'],
  'own-policy-only': ['trouble'],
  'any-time-believed': ['E2b', 'I13'],
  'codes-are-kept': ['I11', 'I3']
}

function runBroken (
  name: string,
  args: readonly string[]
): { readonly status: number | null, readonly stdout: string, readonly stderr: string } {
  return spawnSync(process.execPath, ['--import', './test/broken/register.ts', 'test/simulation/main.ts', ...args], {
    cwd: new URL('../../', import.meta.url),
    encoding: 'utf8',
    env: { ...process.env, ONCEWAY_BREAK: name }
  })
}

for (const name of CAUGHT) {
  const { does, breaks } = breakNamed(name)
  const rules = [...breaks, ...SEEN_BY[name] ?? []]
  test(`a gateway that ${does} is caught`, (t) => {
    const { status, stdout, stderr } = runBroken(name, [
      '--seed',
      String(BEGINS_AT[name] ?? 1),
      '--schedules',
      String(SCHEDULES_MAX),
      '--workers',
      '1',
      '--until-wrong'
    ])
    assert.equal(status, 1, stdout + stderr)
    const [, seed = '', said = ''] = /^seed (\d+) \([^)]*\): (.*)$/m.exec(stdout) ?? []
    const broken = new Set(Array.from(said.matchAll(/\b([INP]\d+|E2b|trouble): /g), ([, rule]) => rule))
    assert.ok(rules.some((rule) => broken.has(rule)), `none of ${rules.join(', ')}: ${said}`)
    assert.match(stdout, new RegExp(`npm run simulate -- --replay ${seed}$`, 'm'))
    t.diagnostic(`after ${/^\d+/.exec(stdout)?.[0]} schedules: ${Array.from(broken).join(', ')}`)
  })
}

test('what is printed for a failure plays it again', () => {
  const [, seed = ''] = /--replay (\d+)$/m.exec(
    runBroken('skip-claim', ['--schedules', '100', '--workers', '1', '--until-wrong']).stdout
  ) ?? []
  const { status, stdout } = runBroken('skip-claim', ['--replay', seed])
  assert.equal(status, 1)
  assert.match(stdout, /^I1: /m)
})
