/**
 * The HTML elements of the console as functions. Text is escaped by the library. What could run or leave this site cannot be written: an
 * inline script or style, and a link to another site.
 */
import { h } from 'preact'
import type { VNode } from 'preact'
import { renderToString } from 'preact-render-to-string'

export type Child = VNode | string | number | null | readonly Child[]
export type Attributes = Readonly<Record<string, string | number | boolean | null | undefined>>
export type Tag = (attributes: Attributes, ...children: Child[]) => VNode

const LINKS: ReadonlySet<string> = new Set(['href', 'src', 'action', 'formaction'])
/** A path of this site, or a place in the page. Two slashes begin the name of another host. */
const LOCAL = /^(?:#|\/(?![/\\]))/

function tag (name: string): Tag {
  return (attributes, ...children) => {
    for (const [attribute, value] of Object.entries(attributes)) {
      if (/^on|^style$|^dangerouslySetInnerHTML$|^srcdoc$/i.test(attribute)) throw new TypeError(`${name} may not have ${attribute}`)
      if (LINKS.has(attribute) && typeof value === 'string' && !LOCAL.test(value)) throw new TypeError(`${name} may not lead to ${value}`)
    }
    return h(name, attributes, ...children as VNode[])
  }
}

export const html = tag('html')
export const head = tag('head')
export const body = tag('body')
export const title = tag('title')
export const meta = tag('meta')
export const link = tag('link')
export const script = tag('script')
export const header = tag('header')
export const nav = tag('nav')
export const main = tag('main')
export const section = tag('section')
export const div = tag('div')
export const span = tag('span')
export const h1 = tag('h1')
export const h2 = tag('h2')
export const p = tag('p')
export const a = tag('a')
export const strong = tag('strong')
export const ul = tag('ul')
export const ol = tag('ol')
export const li = tag('li')
export const dl = tag('dl')
export const dt = tag('dt')
export const dd = tag('dd')
export const pre = tag('pre')
export const table = tag('table')
export const caption = tag('caption')
export const thead = tag('thead')
export const tbody = tag('tbody')
export const tr = tag('tr')
export const th = tag('th')
export const td = tag('td')
export const form = tag('form')
export const label = tag('label')
export const input = tag('input')
export const select = tag('select')
export const option = tag('option')
export const textarea = tag('textarea')
export const button = tag('button')
export const fieldset = tag('fieldset')
export const legend = tag('legend')
export const details = tag('details')
export const summary = tag('summary')
export const progress = tag('progress')
export const noscript = tag('noscript')
export const time = tag('time')
export const bdi = tag('bdi')
export const figure = tag('figure')
export const figcaption = tag('figcaption')
export const svg = tag('svg')
export const line = tag('line')
export const circle = tag('circle')
export const svgText = tag('text')

export function documentOf (root: VNode): string {
  return `<!doctype html>\n${renderToString(root)}\n`
}
