/**
 * Scripts and styles of the console: our own beside the sources, and those of the packages that browsers run. They are read once. Their
 * names have a digest of their content, so a browser keeps them until a release changes them.
 */
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'

export interface Asset {
  /** Below the admin port. */
  readonly path: string
  readonly type: string
  readonly content: Buffer
}

const OWN = new URL('../../../../src/http/console/assets/', import.meta.url)
const PACKAGES = createRequire(import.meta.url)
const TYPES = { css: 'text/css; charset=utf-8', js: 'text/javascript; charset=utf-8', svg: 'image/svg+xml' } as const
/** Enough to tell releases apart. */
const DIGEST_CHARS = 16

let known: ReturnType<typeof read> | null = null

/** Read with the first console of a process, because most commands have none. */
export function assets (): ReturnType<typeof read> {
  known ??= read()
  return known
}

function read () {
  return {
    style: own('console', 'css'),
    script: own('console', 'js'),
    icon: own('icon', 'svg'),
    htmx: packaged('htmx', 'js', 'htmx.org/dist/htmx.min.js'),
    plots: packaged('uplot', 'js', 'uplot/dist/uPlot.iife.min.js'),
    plotStyle: packaged('uplot', 'css', 'uplot/dist/uPlot.min.css')
  } as const
}

function packaged (name: string, extension: keyof typeof TYPES, file: string): Asset {
  return asset(name, extension, readFileSync(PACKAGES.resolve(file)))
}

function own (name: string, extension: keyof typeof TYPES): Asset {
  return asset(name, extension, readFileSync(new URL(`${name}.${extension}`, OWN)))
}

function asset (name: string, extension: keyof typeof TYPES, content: Buffer): Asset {
  const digest = createHash('sha256').update(content).digest('base64url').slice(0, DIGEST_CHARS)
  return { path: `/assets/${name}-${digest}.${extension}`, type: TYPES[extension], content }
}
