/** The table of carriers (src/core/headers/carriers.ts) as docs/concepts/identity.md shows it. */
import { CARRIERS } from '../src/core/headers/carriers.ts'
import type { CarrierClass } from '../src/core/headers/carrier-kinds.ts'

const BEGIN = '<!-- carriers: npm run generate -->'
const END = '<!-- /carriers -->'

const CLASSES: ReadonlyArray<readonly [of: CarrierClass, title: string, text: string]> = [
  [
    'stable',
    'Stable carriers',
    'They are the same on every retry of one caller. All that are present make the scope together. A repeated one is refused.'
  ],
  ['selector', 'Selectors', 'They select the account, tenant or user of a request. They always count. By themselves they name no caller.'],
  [
    'rotating',
    'Rotating carriers',
    'They may differ between two retries of one caller. Beside a stable carrier they are ignored. Alone they get `scope-missing`.'
  ]
]

/** The page with the table between its marks. */
export function withCarriers (page: string): string {
  const [before, after] = [page.indexOf(BEGIN), page.indexOf(END)]
  if (before < 0 || after < before) throw new Error('docs/concepts/identity.md has no marks around its table')
  return `${page.slice(0, before + BEGIN.length)}\n\n${CLASSES.map(section).join('\n\n')}\n\n${page.slice(after)}`
}

function section ([of, title, text]: typeof CLASSES[number]): string {
  const groups = Map.groupBy(CARRIERS.filter((carrier) => carrier.class === of), ({ what }) => what)
  const rows = Array.from(groups, ([what, carriers]) => `| ${what} | ${carriers.map(({ name }) => `\`${name}\``).join(' ')} |`)
  return [`**${title}.** ${text}`, '', '| what | headers |', '|---|---|', ...rows].join('\n')
}
