/** The way of a request: what is true of the whole table, whatever else changes in it. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { movesOf, withWay } from '../../../scripts/way.ts'
import { EVENTS, STATES, WAY } from '../../../src/core/protocol/way.ts'
import type { Action, Event, State } from '../../../src/core/protocol/way.ts'

const read = (name: string): string => readFileSync(new URL(`../../../${name}`, import.meta.url), 'utf8')

interface Step { readonly from: State, readonly event: Event, readonly to: State, readonly actions: readonly Action[] }

const STEPS: readonly Step[] = STATES.flatMap((from) =>
  movesOf(from).map(({ event, move }) => ({ from, event, to: move.to, actions: move.do })))

/** All states to which the way leads from `from`, if it may not pass `without`. */
function reachable (from: State, without?: State): Set<State> {
  const found = new Set<State>(from === without ? [] : [from])
  for (const state of found) {
    for (const { from: at, to } of STEPS) if (at === state && to !== without) found.add(to)
  }
  return found
}

function doing (action: Action): string[] {
  return STEPS.filter(({ actions }) => actions.includes(action)).map(({ from, event, to }) => `${from}.${event} → ${to}`)
}

test('ARCHITECTURE.md has this very table; else run npm run generate', () => {
  const page = read('ARCHITECTURE.md')
  assert.equal(page, withWay(page))
})

test('there is a cell for every state and every event, and no other', () => {
  assert.deepEqual(Object.keys(WAY), STATES)
  for (const state of STATES) assert.deepEqual(Object.keys(WAY[state]).toSorted(), EVENTS.toSorted(), state)
})

test('every state is reached, and every request comes to its end', () => {
  assert.deepEqual(Array.from(reachable('scope')).toSorted(), STATES.toSorted())
  assert.deepEqual(STATES.filter((state) => !reachable(state).has('over')), [])
  assert.deepEqual(STEPS.filter(({ from, to }) => from === 'over' && to !== 'over'), [], 'nothing begins again')
})

test('nobody gets out without leaving: what is held for a request is given back', () => {
  const out = STEPS.filter(({ from, to }) => from !== 'over' && to === 'over')
  assert.ok(out.length > 0)
  assert.deepEqual(out.filter(({ actions }) => actions.at(-1) !== 'leave'), [])
  assert.deepEqual(STEPS.filter(({ to, actions }) => to !== 'over' && actions.includes('leave')), [])
})

test('a request is sent on an acknowledged claim alone (P1), and once', () => {
  assert.deepEqual(doing('forward'), ['claim.claimed → forward', 'decide.claimed → forward'])
  assert.deepEqual(STEPS.filter(({ from, to, actions }) => to === 'forward' && from !== 'forward' && actions[0] !== 'forward'), [])
  assert.equal(reachable('scope', 'claim').has('forward'), false, 'nothing passes the claim by')
  assert.equal(reachable('settle').has('forward'), false, 'nothing goes back')
  // Without a claim it is sent only where further statements, or a copy, have decided so.
  assert.deepEqual(doing('answerDecision'), ['claim.decided → apart', 'decide.decided → apart'])
})

test('nobody gets the answer of an upstream before its settle is acknowledged (E5), or its time is over (E6)', () => {
  assert.deepEqual(doing('keep'), ['settle.settled → over'])
  assert.deepEqual(STEPS.filter(({ from, actions }) => ['forward', 'settle', 'store'].includes(from) && actions.includes('respond')), [])
  assert.deepEqual(WAY.settle.timeout, { to: 'store', do: ['store'] })
})

test('what comes too late is given back (P6)', () => {
  const late = STEPS.filter(({ from }) => from === 'over').map(({ event, actions }) => [event, ...actions])
  assert.deepEqual(late, [['locked', 'unlock'], ['claimed', 'giveBack'], ['lost', 'decide']])
  for (const state of ['lock', 'claim', 'decide'] as const) assert.deepEqual(WAY[state].timeout, { to: 'over', do: ['giveUp', 'leave'] })
})

test('a client that leaves changes nothing (E1), and one that waits gets its answer in time (I8)', () => {
  assert.deepEqual(STATES.filter((state) => WAY[state].gone !== 'kept'), [])
  assert.deepEqual(doing('respondInFlight'), ['forward', 'settle', 'store', 'apart'].map((state) => `${state}.late → ${state}`))
})

test('the checks of what is asked, and of the limits, cannot be passed by on the way to a lock', () => {
  const places: readonly State[] = ['scope', 'body', 'identify', 'authorise', 'recall', 'admit']
  for (const state of places) assert.equal(reachable('scope', state).has('lock'), false, state)
  // Each can refuse, and nothing is claimed by then: no drain has anything to cut off there.
  for (const state of places) {
    assert.deepEqual(WAY[state].refused, { to: 'over', do: ['respond', 'leave'] }, state)
    assert.equal(WAY[state].drained, 'kept', state)
  }
})

test('every action is used and has its function, and only the last of a move may cause the next event', () => {
  const driver = read('src/gateway/way.ts')
  const acts = /this\.#acts = \{\n([\s\S]*?)\n {4}\}/.exec(driver)?.[1] ?? ''
  const implemented = Array.from(acts.matchAll(/^ {6}(\w+): \(request\) => (.*?),?$/gm), ([, name = '', code = '']) => ({ name, code }))
  const used = new Set(STEPS.flatMap(({ actions }) => actions))
  assert.deepEqual(implemented.map(({ name }) => name).toSorted(), Array.from(used).toSorted())
  const before = new Set(STEPS.flatMap(({ actions }) => actions.slice(0, -1)))
  const silent = (name: string): boolean => {
    const code = implemented.find((each) => each.name === name)?.code ?? ''
    const [, method = ''] = /^this\.#(\w+)\(request\)$/.exec(code) ?? []
    return code.startsWith('done(') || new RegExp(`#${method} \\(request: GuardedRequest\\): null \\{`).test(driver)
  }
  assert.deepEqual(Array.from(before).filter((name) => !silent(name)), [])
})
