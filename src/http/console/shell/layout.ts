/** The frame of every page: head, navigation, who is signed in, and the page's own content. */
import type { Operator } from '../../sign-in/authenticated.ts'
import { assets } from './assets.ts'
import {
  a, body, button, div, documentOf, form, h1, head, header, html, input, li, link, main, meta, nav, p, script, span, strong, title, ul
} from './elements.ts'
import type { Child } from './elements.ts'
import { said } from './text.ts'

export interface Frame {
  readonly title: string
  readonly content: Child
  /** null: nobody is signed in, and there is no navigation. */
  readonly operator: Operator | null
  readonly sections: ReadonlyArray<{ readonly name: string, readonly path: string }>
  /** Path and query. */
  readonly url: string
}

/** No style of its own, no other site, no history of pages. */
const HTMX_CONFIG = JSON.stringify({ includeIndicatorCSS: false, history: false, mode: 'same-origin', extensions: 'none' })

export function documentWith ({ title: name, content, operator, sections, url }: Frame): string {
  const { icon, style, plotStyle, htmx, plots, script: own } = assets()
  const here = url.split('?', 1)[0] ?? ''
  return documentOf(html({ lang: 'en' },
    head({},
      meta({ charset: 'utf-8' }),
      meta({ name: 'viewport', content: 'width=device-width, initial-scale=1' }),
      meta({ name: 'color-scheme', content: 'light dark' }),
      meta({ name: 'htmx-config', content: HTMX_CONFIG }),
      title({}, `${name} · onceway`),
      link({ rel: 'icon', href: icon.path, type: 'image/svg+xml' }),
      link({ rel: 'stylesheet', href: plotStyle.path }),
      link({ rel: 'stylesheet', href: style.path }),
      ...[htmx, plots, own].map(({ path }) => script({ src: path, defer: true }))),
    body({},
      a({ class: 'skip', href: '#main' }, 'Skip to the content'),
      header({ class: 'top' },
        div({ class: 'bar' }, a({ class: 'brand', href: '/' }, 'onceway'), operator === null ? null : whoIs(operator)),
        operator === null ? null : navigation(sections, here),
        operator?.identity.via === 'loopback' ? LOOPBACK : null),
      main({ id: 'main', tabindex: -1 }, h1({}, name), content))))
}

const LOOPBACK = div({ class: 'banner', role: 'note' }, p({},
  strong({}, 'Nobody is signed in. '),
  'You see this because you are on the machine of the gateway, and the view is read-only. Set admin.auth or admin.token to make changes.'))

function navigation (sections: Frame['sections'], here: string): Child {
  const current = sections.filter(({ path }) => here === path || here.startsWith(`${path}/`)).map(({ path }) => path)
    .reduce((longest, path) => path.length > longest.length ? path : longest, '')
  return nav({ 'aria-label': 'Console' }, ul({}, sections.map(({ name, path }) =>
    li({}, a({ href: path, ...path === current && { 'aria-current': 'page' } }, name)))))
}

function whoIs ({ identity: { name, role, via }, csrfToken, expiresAtMs }: Operator): Child {
  if (via === 'loopback') return null
  return div({ class: 'who' },
    span({}, said(name), ` · ${role}`),
    // Who is vouched for by a proxy, or sends a token, signs out there.
    expiresAtMs === null
      ? null
      : form({ method: 'post', action: '/sign-out' },
        input({ type: 'hidden', name: 'csrf', value: csrfToken ?? '' }),
        button({ class: 'quiet', type: 'submit' }, 'Sign out')))
}
