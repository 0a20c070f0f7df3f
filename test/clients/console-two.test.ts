/** Two operators at one record or message, each in a browser of their own and at a gateway of their own: one wins, the other is told. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import type { Page } from 'playwright-core'
import { startBrowser } from '../harness/browser.ts'
import { eventually } from '../harness/eventually.ts'
import { needs } from '../harness/needs.ts'
import { startPostgres } from '../harness/postgres.ts'
import { Desk, Ends, Shopper, Stage, tokenOf } from './console-world.ts'
import type { Opened } from './console-world.ts'

const SOON_MS = 30_000
const ends = new Ends()
let shopper: Shopper
let ada: Opened
let bob: Opened

async function confirm (page: Page, id: string, status: string): Promise<void> {
  await page.goto(`/unknown/${id}/happened`)
  await page.getByLabel('Status', { exact: true }).fill(status)
  await page.getByLabel('Body').fill(`it was ${status}`)
  await page.getByLabel('Reason').fill(`I saw ${status}`)
  await page.getByRole('button', { name: 'Check it against the route' }).click()
  await page.getByRole('button', { name: 'Yes, it happened' }).waitFor()
}

const headingOf = async (page: Page): Promise<string> => page.getByRole('heading', { level: 1 }).innerText()

describe('two operators', needs('chromium-headless-shell', 'postgres'), () => {
  before(async () => {
    const postgres = await startPostgres()
    ends.after(async () => postgres.stop())
    const stage = await Stage.open(ends, {
      people: [{ name: 'ada', role: 'operator' }, { name: 'bob', role: 'operator' }], database: await postgres.createDatabase('two')
    })
    const [one, other] = [await stage.start(ends), await stage.start(ends)]
    const browser = await startBrowser(ends)
    shopper = new Shopper(one, tokenOf('ada'))
    ada = await new Desk(browser, one.adminUrl).signedIn('ada', '/overview')
    bob = await new Desk(browser, other.adminUrl).signedIn('bob', '/overview')
  })
  after(async () => ends.run())

  test('who decide at the same moment: one decision counts, the other operator sees it with its name and its reason', async () => {
    const id = await shopper.lose('at-once')
    await confirm(ada.page, id, '201')
    await confirm(bob.page, id, '202')
    await Promise.all([ada, bob].map(async ({ page }) => {
      await page.getByRole('button', { name: 'Yes, it happened' }).click()
      await page.getByRole('heading', { name: /^(?:Decided|Who changed it)$/ }).waitFor()
    }))
    const isAda = await headingOf(ada.page) === 'Decided'
    const [winner, loser, status] = isAda ? ['ada', bob.page, 201] as const : ['bob', ada.page, 202] as const
    const text = await loser.getByRole('main').innerText()
    assert.match(text, /Your change was not made\. Nothing was written\./)
    assert.match(text, new RegExp(`${winner}[\\s\\S]*I saw ${status}[\\s\\S]*Status ${status}`))
    const { entries } = await shopper.answerOf<{ entries: Array<{ who: string }> }>(`/audit?id=${id}`)
    assert.deepEqual(entries.map(({ who }) => who), [winner])
    const retry = await shopper.send('at-once')
    assert.deepEqual([retry.status, retry.text], [status, `it was ${status}`])
  })

  test('of two at one dead letter the second sees that it was discarded, by whom and why', async () => {
    const id = await shopper.messageOf('letter')
    const state = async () => (await shopper.answerOf<{ state: string }>(`/messages/${id}`)).state
    await eventually(async () => await state() === 'dead', 'it is dead', SOON_MS)
    await bob.page.goto(`/inbox/messages/${id}/retry`)
    await bob.page.getByLabel('Reason').fill('the consumer is back')
    await ada.page.goto(`/inbox/messages/${id}/discard`)
    await ada.page.getByLabel('Reason').fill('it was a test')
    await ada.page.getByRole('button', { name: 'Discard this message' }).click()
    await ada.page.getByRole('heading', { name: 'Done', exact: true }).waitFor()
    await bob.page.getByRole('button', { name: 'Retry this message' }).click()
    await bob.page.getByRole('heading', { name: 'Who changed it' }).waitFor()
    assert.match(await bob.page.getByRole('main').innerText(), /Your change was not made[\s\S]*ada[\s\S]*it was a test[\s\S]*Discarded/)
    assert.equal(await state(), 'discarded')
  })
})
