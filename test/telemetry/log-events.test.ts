import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import ts from 'typescript'
import { logCalls, logEventsPage } from '../../scripts/log-events.ts'
import type { LogCall } from '../../scripts/log-events.ts'
import { LOG_EVENTS } from '../../src/ports/log-events.ts'
import { SILENT } from '../harness/gateway.ts'

const calls = logCalls()

function callsIn (text: string): LogCall[] {
  return logCalls([ts.createSourceFile('one.ts', text, ts.ScriptTarget.Latest, true)])
}

test('docs/reference/log-events.md has the events of the sources; else run npm run generate', () => {
  assert.equal(readFileSync(new URL('../../docs/reference/log-events.md', import.meta.url), 'utf8'), logEventsPage(calls))
})

test('every event of the table is written somewhere in src', () => {
  const written = new Set(calls.map(({ event }) => event))
  assert.deepEqual(Object.keys(LOG_EVENTS).filter((event) => !written.has(event)), [])
})

test('an event that no line has is an error, and so is a line whose event is not in the table', () => {
  const [first] = calls
  assert.ok(first !== undefined)
  assert.throws(
    () => logEventsPage([...calls, { ...first, event: 'new-event' }], { ...LOG_EVENTS, 'old-event': { means: '', do: '' } }),
    /lacks new-event, and no line of src has old-event/
  )
})

test('names are kebab-case and in order, and each says what to do', () => {
  const names = Object.keys(LOG_EVENTS)
  assert.deepEqual(names.filter((name) => !/^[a-z]+(?:-[a-z]+)*$/.test(name)), [])
  assert.deepEqual(names, names.toSorted())
  assert.deepEqual(Object.entries(LOG_EVENTS).filter(([, each]) => !/\.$/.test(each.means) || !/\.$/.test(each.do)), [])
})

test('a line without an event, or with an unknown one, does not compile', () => {
  // @ts-expect-error: no event
  SILENT.warn({ route: 'r' }, 'x')
  // @ts-expect-error: an event that the table does not have
  SILENT.warn({ event: 'no-such-event', route: 'r' }, 'x')
  SILENT.warn({ event: 'lease-lost', route: 'r' }, 'x')
})

test('levels, messages and fields come from the calls', () => {
  const composed = `function f (n) {
    const more = { b: n }
    log.warn({ event: 'x', a: 1, ...more, ...n && { c: n } }, \`n is \${n}.\`)
  }`
  assert.deepEqual(callsIn(composed), [
    { event: 'x', level: 'warn', messages: ['n is ….'], fields: ['a', 'b', 'c'] }
  ])
  assert.deepEqual(callsIn("notices.warn('x', route, which, { a: 1 }, 'm')"), [
    { event: 'x', level: 'warn', messages: ['m'], fields: ['route', 'a', 'unsaid'] }
  ])
  assert.deepEqual(callsIn("function say (why) { this.log.info({ event: 'x' }, why) } say('one'); say('two')"), [
    { event: 'x', level: 'info', messages: ['one', 'two'], fields: [] }
  ])
  assert.deepEqual(callsIn("log.error({ event: 'x' }, config.remark)"), [{ event: 'x', level: 'error', messages: [null], fields: [] }])
})

test('a line whose event is not written out where the line is written is an error', () => {
  assert.throws(() => callsIn("log.warn(fields, 'm')"), /event is not written out/)
  assert.throws(() => callsIn("log.warn({ event: name }, 'm')"), /event is not written out/)
})
