/**
 * The operators' console in a real browser, at a real gateway whose upstream loses answers: the ways of an operator, without a mouse,
 * without scripts, and what checks of accessibility find.
 */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { after, before, describe, test } from 'node:test'
import type { BrowserContextOptions, Page } from 'playwright-core'
import { StoreUnavailable } from '../../src/ports/errors.ts'
import { startBrowser } from '../harness/browser.ts'
import { eventually } from '../harness/eventually.ts'
import { needs } from '../harness/needs.ts'
import { recordIn, startConsole, TOKENS as CONSOLE_TOKENS } from '../http/console/world.ts'
import { Desk, Ends, Shopper, signInByToken, Stage, tokenOf } from './console-world.ts'
import type { Opened } from './console-world.ts'

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')
const PEOPLE = [{ name: 'ada', role: 'admin' }, { name: 'bob', role: 'admin' }] as const
type Name = typeof PEOPLE[number]['name']
/** So many rules have something to look at on the smallest page. */
const RULES_MIN = 20
/** More than some steps of a change of many. */
const MANY = 130

const ends = new Ends()
let desk: Desk
let shopper: Shopper

const open = async (options?: BrowserContextOptions): Promise<Opened> => desk.open(options)
const signedIn = async (name: Name, path: string, options?: BrowserContextOptions): Promise<Opened> => desk.signedIn(name, path, options)
const send = async (key: string, path?: string) => shopper.send(key, path)
const lose = async (key: string, path?: string): Promise<string> => shopper.lose(key, path)
const answerOf = async <Body> (path: string): Promise<Body> => shopper.answerOf<Body>(path)

/** Goes on with the tabulator key until the element with this name has the focus. */
async function tabTo (page: Page, name: RegExp | string): Promise<void> {
  for (let pressed = 0; pressed < 80; pressed++) {
    await page.keyboard.press('Tab')
    const focused = await page.evaluate(() => {
      const element = document.activeElement
      const labels = element instanceof HTMLInputElement || element instanceof HTMLTextAreaElement
        ? Array.from(element.labels ?? [], (label) => label.textContent ?? '')
        : []
      return [...labels, element?.textContent ?? ''].join(' ').trim()
    })
    if (typeof name === 'string' ? focused === name : name.test(focused)) return
  }
  throw new Error(`no focus on ${name} at ${page.url()}`)
}

describe('the console in a browser', needs('chromium-headless-shell'), () => {
  before(async () => {
    const stage = await Stage.open(ends, { people: PEOPLE })
    const gateway = await stage.start(ends)
    desk = new Desk(await startBrowser(ends), gateway.adminUrl)
    shopper = new Shopper(gateway, tokenOf('ada'))
  })
  after(async () => ends.run())

  test('sign in, the guided way of one unknown outcome, and then its retry gets the answer', async () => {
    const id = await lose('guided')
    const { page, context } = await signedIn('ada', `/unknown/${id}`)
    assert.equal(new URL(page.url()).pathname, `/unknown/${id}`, 'it leads to where it was going')
    await page.getByRole('link', { name: 'It happened …' }).click()
    await page.getByLabel('Status', { exact: true }).fill('201')
    await page.getByLabel('Header fields').fill('Content-Type: application/json')
    await page.getByLabel('Body').fill('{"id":"ch_1"}')
    await page.getByLabel('Reason').fill('ch_1 is in the ledger')
    await page.getByRole('button', { name: 'Check it against the route' }).click()
    await page.getByText('will be told: status 201, a body of 13 B').waitFor()
    await page.getByRole('button', { name: 'Yes, it happened' }).click()
    await page.getByRole('heading', { name: 'Decided' }).waitFor()
    assert.match(await page.getByRole('status').innerText(), /ada[\s\S]*ch_1 is in the ledger/)
    const retry = await send('guided')
    assert.deepEqual([retry.status, retry.text, retry.headers['idempotent-replayed']], [201, '{"id":"ch_1"}', 'true'])
    await context.close()
  })

  test('times are in the reader’s zone, with the text of the server beside, and numbers are drawn', async () => {
    await lose('drawn')
    const { page, context } = await signedIn('ada', '/unknown')
    const time = page.locator('table time').first()
    assert.match(await time.innerText(), /GMT\+5:45$/)
    assert.match(await time.getAttribute('title') ?? '', /^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC$/)
    assert.ok((await page.locator('.plot canvas').boundingBox())?.width)
    await context.close()
  })

  test('a list that is refreshed shows what is new, and stops when it is told to', async () => {
    const { page, context } = await signedIn('ada', '/unknown?live=1&route=charges')
    await lose('refreshed')
    const [{ records }, text] = [
      await answerOf<{ records: unknown[] }>('/records?state=indeterminate&route=charges'), page.locator('#queue > [role=status]')
    ]
    await page.waitForFunction(
      (count) => document.querySelector('#queue > [role=status]')?.textContent?.startsWith(`${count} outcome`), records.length
    )
    assert.match(await text.innerText(), /unknown\.$/)
    assert.match(await page.locator('#queue table time').first().innerText(), /GMT\+5:45$/, 'what came later has the reader’s zone too')
    await page.getByRole('link', { name: 'Stop refreshing' }).click()
    await page.getByRole('link', { name: 'Refresh every 10 s' }).waitFor()
    await context.close()
  })

  test('many at once: count, sample, steps, stop, and on to the end', async () => {
    for (let at = 0; at < MANY; at += 10) {
      await Promise.all(
        Array.from({ length: 10 }, async (_none, of) => lose(`many-${at + of}`, '/batch'))
      )
    }
    const { page, context } = await signedIn('bob', '/unknown?route=batch')
    await page.getByRole('link', { name: 'Decide about all of these at once …' }).click()
    await page.getByRole('heading', { name: `${MANY} records match` }).waitFor()
    await page.getByLabel('All of them happened').check()
    await page.getByText('The answer, if all of them happened').click()
    await page.getByLabel('Status', { exact: true }).fill('201')
    await page.getByLabel('Only the status is known').check()
    await page.getByLabel('Reason').fill('the batch went through')
    // The second step waits until the operator has asked to stop, however fast the gateway is.
    const ticked = Promise.withResolvers<void>()
    let steps = 0
    await page.route('**/records/changes', async (route) => {
      if (++steps === 2) await ticked.promise
      await route.continue()
    })
    await page.getByRole('button', { name: `Change ${MANY} records` }).click()
    await page.getByText(`Changing: 25 of ${MANY} records changed.`).waitFor()
    await page.getByLabel('Stop before the next step').check()
    ticked.resolve()
    await page.getByText(/^Stopped: \d+ of 130 records changed\.$/).waitFor()
    const stoppedAt = Number(/(\d+) of/.exec(await page.locator('#progress').innerText())?.[1])
    assert.ok(stoppedAt < MANY, `it stopped at ${stoppedAt}`)
    const stopLine = page.locator('#stop-line')
    assert.equal(await stopLine.isVisible(), false, 'nothing is left to stop')
    const left = async () => (await answerOf<{ records: unknown[] }>('/records?state=indeterminate&route=batch&limit=500')).records.length
    assert.equal(await left(), MANY - stoppedAt)
    await page.getByRole('button', { name: 'Continue' }).click()
    await page.getByText(`Done: ${MANY} of ${MANY} records changed.`).waitFor()
    assert.equal(await stopLine.isVisible(), false)
    assert.equal(await left(), 0)
    await context.close()
  })

  test('two operators at one record: the second sees who was first, and what the record is now', async () => {
    const id = await lose('contended')
    const [ada, bob] = [await signedIn('ada', `/unknown/${id}/happened`), await signedIn('bob', `/unknown/${id}/happened`)]
    for (const { page } of [ada, bob]) {
      await page.getByLabel('Status', { exact: true }).fill('201')
      await page.getByLabel('Only the status is known').check()
      await page.getByLabel('Reason').fill('both saw it')
      await page.getByRole('button', { name: 'Check it against the route' }).click()
      await page.getByRole('button', { name: 'Yes, it happened' }).waitFor()
    }
    await bob.page.getByRole('button', { name: 'Yes, it happened' }).click()
    await bob.page.getByRole('heading', { name: 'Decided' }).waitFor()
    await ada.page.getByRole('button', { name: 'Yes, it happened' }).click()
    await ada.page.getByRole('heading', { name: 'Who changed it' }).waitFor()
    const text = await ada.page.getByRole('main').innerText()
    assert.match(text, /Your change was not made/)
    assert.match(text, /bob[\s\S]*both saw it/)
    assert.match(text, /Executed, answer not kept/)
    await Promise.all([ada.context.close(), bob.context.close()])
  })

  test('by keyboard alone: from the sign-in to the decision', async () => {
    const id = await lose('keys')
    const { page, context } = await open()
    await page.goto(`/unknown/${id}`)
    await tabTo(page, 'Token')
    await page.keyboard.type(tokenOf('ada'))
    await page.keyboard.press('Enter')
    await page.getByRole('navigation').waitFor()
    await page.keyboard.press('Tab')
    assert.equal(await page.evaluate(() => document.activeElement?.textContent), 'Skip to the content')
    const outline = await page.evaluate(() => getComputedStyle(document.activeElement ?? document.body).outlineStyle)
    assert.equal(outline, 'solid', 'the focus can be seen')
    await page.keyboard.press('Enter')
    await tabTo(page, 'It happened …')
    await page.keyboard.press('Enter')
    await page.getByLabel('Reason').waitFor()
    await tabTo(page, 'Status')
    await page.keyboard.type('201')
    await tabTo(page, 'Only the status is known')
    await page.keyboard.press('Space')
    await tabTo(page, 'Reason')
    await page.keyboard.type('typed')
    await page.keyboard.press('Enter')
    await page.getByRole('button', { name: 'Yes, it happened' }).waitFor()
    await tabTo(page, 'Yes, it happened')
    await page.keyboard.press('Enter')
    await page.getByRole('heading', { name: 'Decided' }).waitFor()
    await context.close()
  })

  test('without scripts everything works: the guided way, and each step of many by its button', async () => {
    const id = await lose('plain')
    for (let at = 0; at < 30; at++) await lose(`plain-${at}`, '/batch')
    const { page, context } = await signedIn('ada', `/unknown/${id}`, { javaScriptEnabled: false })
    assert.match(await page.locator('time').first().innerText(), / UTC$/)
    await page.getByRole('link', { name: 'It happened …' }).click()
    await page.getByLabel('Status', { exact: true }).fill('200')
    await page.getByLabel('Reason').fill('seen')
    await page.getByRole('button', { name: 'Check it against the route' }).click()
    await page.getByRole('button', { name: 'Yes, it happened' }).click()
    await page.getByRole('heading', { name: 'Decided' }).waitFor()
    await page.goto('/records/changes?state=indeterminate&route=batch')
    await page.getByLabel('All of them happened').check()
    await page.getByText('The answer, if all of them happened').click()
    await page.getByLabel('Status', { exact: true }).fill('201')
    await page.getByLabel('Only the status is known').check()
    await page.getByLabel('Reason').fill('seen')
    await page.getByRole('button', { name: 'Change 30 records' }).click()
    await page.getByText('Changing: 25 of 30 records changed.').waitFor()
    await page.getByRole('button', { name: 'Next step' }).click()
    await page.getByText('Done: 30 of 30 records changed.').waitFor()
    await page.getByRole('button', { name: 'Sign out' }).click()
    await page.getByRole('heading', { name: 'Sign in' }).waitFor()
    await context.close()
  })

  test('no check of accessibility finds anything, in light, in dark and at 320 pixels, and no page is wider than the window', async (t) => {
    const local = await startConsole(t, { admin: 'host: 127.0.0.1' })
    const unknown = await lose('checked')
    await send('stored', '/orders')
    const completed = (await answerOf<{ records: Array<{ id: string }> }>('/records?state=completed')).records[0]?.id
    await send('hook', '/hooks')
    const letters = async () => (await answerOf<{ messages: Array<{ id: string }> }>('/messages?state=dead')).messages
    await eventually(async () => (await letters()).length > 0, 'the message is dead')
    const dead = (await letters())[0]?.id
    for (const key of ['stops', 'behind']) await send(key, '/hooks/ordered')
    const heads = async () =>
      (await answerOf<{ groups: Array<{ first: { id: string, state: string } }> }>('/inbox/routes/ordered/groups')).groups
    await eventually(async () => (await heads())[0]?.first.state === 'dead', 'the group is stopped')
    const behind = (await answerOf<{ messages: Array<{ id: string }> }>('/messages?key=behind')).messages[0]?.id
    const paths = [
      '/records', '/records?route=nothing', `/records/${completed}`, `/records/${completed}/delete`, '/records/changes?state=indeterminate',
      '/overview', '/explain', '/configuration',
      '/unknown', `/unknown/${unknown}`, `/unknown/${unknown}/happened`, `/unknown/${unknown}/not`, `/unknown/${completed}/done`,
      `/unknown/${completed}/not`, '/inbox', '/inbox/messages', '/inbox/messages?state=dead', `/inbox/messages/${dead}`,
      `/inbox/messages/${dead}/retry`, '/inbox/changes?state=dead', '/inbox/pause?route=hooks', '/audit', '/records?state=wrong',
      '/inbox/groups?route=ordered', `/inbox/messages/${(await heads())[0]?.first.id}`, `/inbox/messages/${behind}`
    ]
    for (
      const options of [
        { colorScheme: 'light' }, { colorScheme: 'dark' }, { colorScheme: 'light', viewport: { width: 320, height: 640 } }
      ] as const
    ) {
      const { page, context } = await signedIn('ada', '/records', { bypassCSP: true, ...options })
      for (const path of paths) {
        await page.goto(path)
        await checked(page, `${JSON.stringify(options)} ${path}`)
      }
      const { page: outside, context: other } = await open({ bypassCSP: true, ...options })
      await outside.goto('/sign-in')
      await checked(outside, `${JSON.stringify(options)} /sign-in`)
      await outside.goto(`${local.url}/records`)
      await checked(outside, `${JSON.stringify(options)} on loopback`)
      await Promise.all([context.close(), other.close()])
    }
  })

  test('a store that is away: a list stays as it was, and a step of many says so in the place of its progress', async (t) => {
    const own = await startConsole(t)
    for (let at = 0; at < 60; at++) await recordIn(own, 'indeterminate')
    const { page, context } = await open({ baseURL: own.url })
    await page.goto('/unknown?live=1')
    await signInByToken(page, CONSOLE_TOKENS.operator)
    await page.getByText('60 outcomes are unknown.').waitFor()
    own.breaks = new StoreUnavailable('sqlite', 'search', false)
    await page.waitForResponse((response) => response.status() === 503)
    await page.getByText('60 outcomes are unknown.').waitFor()
    own.breaks = null
    await page.goto('/records/changes?state=indeterminate')
    await page.getByLabel('None of them happened').check()
    await page.getByLabel('Reason').fill('the upstream was down')
    let steps = 0
    await page.route('**/records/changes', async (route) => {
      if (++steps === 2) own.breaks = new StoreUnavailable('sqlite', 'search', false)
      await route.continue()
    })
    await page.getByRole('button', { name: 'Change 60 records' }).click()
    await page.locator('#progress [role=alert]').getByText('The store cannot be used now').waitFor()
    await context.close()
  })

  test('no page had an error of a script, or did what its policy forbids', () => {
    assert.deepEqual(desk.faults, [])
  })
})

interface Found { readonly id: string, readonly nodes: ReadonlyArray<{ readonly html: string, readonly failureSummary: string }> }
interface Result { readonly violations: readonly Found[], readonly passes: readonly Found[] }
interface WithAxe { readonly axe: { readonly run: (options: object) => Promise<Result> } }

async function checked (page: Page, where: string): Promise<void> {
  await page.evaluate(AXE)
  const { violations, passes } = await page.evaluate(
    async () => (globalThis as unknown as WithAxe).axe.run(
      { runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'] }
    )
  )
  assert.deepEqual(
    violations.map(({ id, nodes }) => `${id}: ${nodes.map(({ html, failureSummary }) => `${html}\n${failureSummary}`).join('\n')}`),
    [],
    where
  )
  assert.ok(passes.length > RULES_MIN, where)
  const isWider = await page.evaluate(() => document.documentElement.scrollWidth > document.documentElement.clientWidth)
  assert.equal(isWider, false, `${where} scrolls to the side`)
}
