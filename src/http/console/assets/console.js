/**
 * Conveniences of the console's pages: times in the reader's zone, and pictures of numbers that stand in a table beside them. Without it
 * every page works.
 */

/* global getComputedStyle, matchMedia, MutationObserver, ResizeObserver */

/** @typedef {{ labels: string[], values: number[] }} Bars */

const FORMAT = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'medium' })
const ZONE = new Intl.DateTimeFormat(undefined, { timeZoneName: 'short', hour: 'numeric' })
const PLOT_HEIGHT = 176
const BAR_WIDTH = 0.6
const AXIS_SIZE = 32

/** @param {HTMLTimeElement} element */
function localise (element) {
  const at = new Date(element.dateTime)
  if (element.title !== '' || Number.isNaN(at.getTime())) return
  element.title = element.textContent ?? ''
  const zone = ZONE.formatToParts(at).find(({ type }) => type === 'timeZoneName')?.value ?? ''
  element.textContent = `${FORMAT.format(at)} ${zone}`
}

/** @param {HTMLElement} element */
function draw (element) {
  const text = element.dataset.plot ?? ''
  const colour = (/** @type {string} */ name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim()
  /** @type {Bars} */
  const { labels, values } = JSON.parse(text)
  const axis = { stroke: colour('--soft'), grid: { show: false }, ticks: { show: false }, size: AXIS_SIZE }
  element.replaceChildren()
  const { uPlot: Plot } = globalThis
  const plot = new Plot({
    width: element.clientWidth,
    height: PLOT_HEIGHT,
    cursor: { show: false },
    legend: { show: false },
    scales: { x: { time: false, range: [-0.5, labels.length - 0.5] }, y: { range: (_plot, _least, most) => [0, Math.max(1, most)] } },
    axes: [
      { ...axis, splits: () => labels.map((_label, at) => at), values: () => labels },
      { ...axis, splits: (_plot, _axis, _least, most) => [0, Math.ceil(most)], size: AXIS_SIZE + 8 }
    ],
    series: [
      {},
      {
        fill: colour('--accent'),
        stroke: colour('--accent'),
        points: { show: false },
        paths: Plot.paths.bars({ size: [BAR_WIDTH] })
      }
    ]
  }, [labels.map((_label, at) => at), values], element)
  const sizes = new ResizeObserver(() => {
    if (plot.root.isConnected) plot.setSize({ width: element.clientWidth, height: PLOT_HEIGHT })
    else sizes.disconnect()
  })
  sizes.observe(element)
}

/** @param {ParentNode} root */
function enhance (root) {
  for (const element of root.querySelectorAll('time[datetime]')) localise(/** @type {HTMLTimeElement} */ (element))
  for (const element of root.querySelectorAll('[data-plot]:empty')) draw(/** @type {HTMLElement} */ (element))
}

enhance(document)
// Parts of the page are replaced, whatever replaces them.
new MutationObserver(() => { enhance(document) }).observe(document.body, { childList: true, subtree: true })
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => {
  for (const element of document.querySelectorAll('[data-plot]')) draw(/** @type {HTMLElement} */ (element))
})
