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

export const [html, head, body, title, meta, link, script] = ['html', 'head', 'body', 'title', 'meta', 'link', 'script'].map(tag) as Seven
export const [header, nav, main, footer, section, div, span] = ['header', 'nav', 'main', 'footer', 'section', 'div', 'span'].map(tag) as Seven
export const [h1, h2, h3, p, a, strong, code] = ['h1', 'h2', 'h3', 'p', 'a', 'strong', 'code'].map(tag) as Seven
export const [ul, ol, li, dl, dt, dd, pre] = ['ul', 'ol', 'li', 'dl', 'dt', 'dd', 'pre'].map(tag) as Seven
export const [table, caption, thead, tbody, tr, th, td] = ['table', 'caption', 'thead', 'tbody', 'tr', 'th', 'td'].map(tag) as Seven
export const [form, label, input, select, option, textarea, button] =
  ['form', 'label', 'input', 'select', 'option', 'textarea', 'button'].map(tag) as Seven
export const [fieldset, legend, datalist, details, summary, progress, noscript] =
  ['fieldset', 'legend', 'datalist', 'details', 'summary', 'progress', 'noscript'].map(tag) as Seven
export const [time, bdi, figure, figcaption, svg, line, circle] =
  ['time', 'bdi', 'figure', 'figcaption', 'svg', 'line', 'circle'].map(tag) as Seven
export const svgText = tag('text')

type Seven = [Tag, Tag, Tag, Tag, Tag, Tag, Tag]

export function documentOf (root: VNode): string {
  return `<!doctype html>\n${renderToString(root)}\n`
}
