/** Mechanisms of what identifies a request, and what it is compared by: taken out, the pairs of test/identity must fail. */
import type { Break } from './breaks.ts'

const CALLER = 'core/scope/caller-scope.ts'

/** Without it the names of a scope's label tell most callers apart whom its digest does not. */
const UNLABELLED = {
  file: CALLER,
  find: 'const names = sorted.slice(0, LABEL_NAMES_MAX).map(({ name }) => name)',
  replace: 'const names: string[] = []'
} as const

export const IDENTITY_BREAKS: readonly Break[] = [
  {
    name: 'first-carrier-alone',
    does: 'tells callers apart by the first carrier that they show',
    breaks: ['caller'],
    patches: [{
      file: CALLER,
      find: "return { ...scopeNamed('', [...naming, ...selecting])",
      replace: "return { ...scopeNamed('', [...naming, ...selecting].slice(0, 1))"
    }]
  },
  {
    name: 'order-of-lines-counts',
    does: 'makes another caller of the same carriers in another order',
    breaks: ['same'],
    patches: [{ file: CALLER, find: 'const sorted = inOrder(carriers)', replace: 'const sorted = carriers' }]
  },
  {
    name: 'selectors-uncounted',
    does: 'counts no selector',
    breaks: ['caller'],
    patches: [{
      file: CALLER,
      find: "if (carrier.class === 'selector') selecting.push({ name, value, ...way })",
      replace: "if (carrier.class === 'selector') continue"
    }]
  },
  {
    name: 'rotating-joins',
    does: 'counts what changes between retries',
    breaks: ['same'],
    patches: [{
      file: 'core/headers/found-carriers.ts',
      find: "if (carrier.class === 'rotating') rotating.push(carrier)",
      replace: 'if (carrier === null) rotating.push(carrier)'
    }]
  },
  {
    name: 'hosts-share-records',
    does: 'has one set of records for all hosts of an upstream that is told them',
    breaks: ['caller'],
    patches: [{
      file: 'gateway/scope/scope.ts',
      find: "rules === 2 && host === 'preserve' ?",
      replace: "rules === 2 && host === 'preserve' && caller === '' ?"
    }]
  },
  {
    name: 'first-of-two-lines',
    does: 'takes the first line of a carrier that comes twice',
    breaks: ['refused'],
    patches: [{ file: 'core/headers/found-carriers.ts', find: 'repeated ??= carrier', replace: 'repeated ??= null' }]
  },
  {
    name: 'empty-is-absent',
    does: 'takes an empty carrier for none',
    breaks: ['refused'],
    // eslint-disable-next-line no-template-curly-in-string -- a piece of source
    patches: [{ file: CALLER, find: 'else return { detail: `The ${titled(carrier.name)} header is empty.` }', replace: 'else continue' }]
  },
  {
    name: 'names-uncounted',
    does: 'counts the values of carriers, and not their names',
    breaks: ['caller'],
    patches: [
      {
        file: CALLER,
        find: 'for (const { name, value } of sorted) framed.push(name, value)',
        replace: 'for (const { value } of sorted) framed.push(value)'
      },
      UNLABELLED
    ]
  },
  {
    name: 'names-run-into-values',
    does: 'puts nothing between a carrier\'s name and its value',
    breaks: ['caller'],
    patches: [
      {
        file: CALLER,
        find: 'for (const { name, value } of sorted) framed.push(name, value)',
        replace: 'for (const { name, value } of sorted) framed.push(name + value)'
      },
      UNLABELLED
    ]
  },
  {
    name: 'carriers-run-together',
    does: 'puts nothing between one carrier and the next one',
    breaks: ['caller'],
    patches: [{ file: CALLER, find: 'framedDigest(framed)', replace: "framedDigest([framed.join('')])" }, UNLABELLED]
  },
  {
    name: 'anybody-is-a-proxy',
    does: 'believes everybody what a proxy says',
    breaks: ['refused'],
    patches: [{
      file: CALLER,
      find: '!lookAlike && (!forwarded || caller.forwarded.trusted)',
      replace: '!lookAlike && (!forwarded || caller !== null)'
    }]
  },
  {
    name: 'unknown-names-are-nobody',
    does: 'takes who shows a credential that it does not know for nobody',
    breaks: ['refused'],
    patches: [{
      file: CALLER,
      find: 'const lookAlike = firstLookAlike(caller.rawHeaders, own())',
      replace: 'const lookAlike = firstLookAlike([], own())'
    }]
  },
  {
    name: 'signers-replay',
    does: 'gives stored answers to callers who sign where nobody has said that it may',
    breaks: ['refused'],
    patches: [{ file: CALLER, find: "if (signing === 'refused') return", replace: 'if (signing === undefined) return' }]
  },
  {
    name: 'certificates-uncounted',
    does: 'counts the certificate of a connection only where nothing else names the caller',
    breaks: ['caller'],
    patches: [{
      file: CALLER,
      find: 'const naming = certificate === null\n',
      replace: 'const naming = certificate === null || read.naming.length > 0\n'
    }]
  },
  {
    name: 'certificates-all-alike',
    does: 'takes all who show a certificate for one caller',
    breaks: ['caller'],
    patches: [{
      file: CALLER,
      find: '{ name: OWN_CERTIFICATE, value: certificate,',
      replace: '{ name: OWN_CERTIFICATE, value: OWN_CERTIFICATE,'
    }]
  },
  {
    name: 'connections-are-callers',
    does: 'takes all who come by one connection with the same names for one',
    breaks: ['caller'],
    patches: [{
      file: 'core/headers/found-carriers.ts',
      find: "line.name !== lower || line.value !== trimOws(raw[at + 1] ?? '')",
      replace: 'line.name !== lower'
    }]
  },
  {
    name: 'absent-is-empty',
    does: 'takes a part of a scope that is not there for an empty one',
    breaks: ['caller'],
    patches: [{
      file: 'core/scope/scope.ts',
      find: "...found.kind === 'value' ? ['value', found.value] : ['absent'])",
      replace: "'value', found.kind === 'value' ? found.value : '')"
    }]
  },
  {
    name: 'spaces-of-all-kinds',
    does: 'takes away from a credential whatever JavaScript calls a space',
    breaks: ['caller'],
    patches: [{ file: 'core/headers/lines.ts', find: 'return value.slice(start, end)', replace: 'return value.slice(start, end).trim()' }]
  },
  {
    name: 'ports-of-targets-unread',
    does: 'takes a target and a Host of two ports for one application',
    breaks: ['refused'],
    patches: [{
      file: 'routing/match.ts',
      find: 'plainHost(parsed.host) !== plainHost(host)',
      replace: 'hostName(parsed.host) !== hostName(host)'
    }]
  },
  {
    name: 'hosts-uncompared',
    does: 'compares no host',
    breaks: ['request'],
    patches: [{
      file: 'core/fingerprint/fingerprint.ts',
      find: "const own = host === null ? '' : comparedHost(host)",
      replace: "const own = host === null ? '' : comparedHost('')"
    }]
  },
  {
    name: 'ports-compared',
    does: 'makes another request of the same one at another port or address of the gateway',
    breaks: ['same'],
    patches: [{
      file: 'core/fingerprint/fingerprint.ts',
      find: "const own = host === null ? '' : comparedHost(host)",
      replace: "const own = host ?? ''"
    }]
  },
  {
    name: 'ignored-members-compared',
    does: 'compares the members of a body that its route leaves out',
    breaks: ['same'],
    patches: [{ file: 'core/fingerprint/body.ts', find: 'readDocument(body, members?.tree ?? null)', replace: 'readDocument(body, null)' }]
  },
  {
    name: 'codings-uncompared',
    does: 'compares bodies whatever they are encoded by',
    breaks: ['request'],
    patches: [{
      file: 'core/fingerprint/compared-fields.ts',
      find: "names: ['content-encoding', 'content-transfer-encoding'",
      replace: "names: ['content-transfer-encoding'"
    }]
  },
  {
    name: 'overrides-uncompared',
    does: 'compares the method of a request, and not what overrides it',
    breaks: ['request'],
    patches: [{ file: 'core/fingerprint/fingerprint.ts', find: '    pushLines(framed, overriding)\n', replace: '' }]
  },
  {
    name: 'boundaries-compared',
    does: 'makes another request of the same form behind another boundary',
    breaks: ['same'],
    patches: [{
      file: 'core/fingerprint/fingerprint.ts',
      find: "comparedMediaType(contentType, mode === 'bytes')",
      replace: 'comparedMediaType(contentType, true)'
    }]
  },
  {
    name: 'earlier-ids-forgotten',
    does: 'looks for nothing under the ids of the scheme before',
    breaks: ['same'],
    patches: [{
      file: 'gateway/shared/ids.ts',
      find: 'const before = earlier === null ? null : identityBy(',
      replace: 'const before = earlier === null || earlier.number > 0 ? null : identityBy('
    }]
  },
  {
    name: 'look-alikes-name',
    does: 'takes a field that it drops for who calls',
    breaks: ['refused'],
    patches: [{
      file: CALLER,
      find: '!lookAlike && (!forwarded || caller.forwarded.trusted)',
      replace: '(!forwarded || caller.forwarded.trusted)'
    }]
  },
  {
    name: 'parts-have-no-accounts',
    does: 'counts no selector beside the parts of a scope',
    breaks: ['caller'],
    patches: [{
      file: 'core/scope/scope.ts',
      find: '|| !countsSelected(policy.parts)\n        ? found',
      replace: '|| policy.parts.length >= 0\n        ? found'
    }]
  },
  {
    name: 'proxies-have-one-host',
    does: 'does not ask which host a proxy was asked for',
    breaks: ['caller'],
    patches: [{
      file: 'core/scope/scope.ts',
      find: 'of trusted ? pairs(rawHeaders) : []',
      replace: 'of trusted && host === null ? pairs(rawHeaders) : []'
    }]
  },
  {
    name: 'proxies-uncompared',
    does: 'does not compare which host a proxy was asked for',
    breaks: ['request'],
    patches: [{ file: 'core/fingerprint/fingerprint.ts', find: '...forwarded.map(comparedHost)]', replace: '...forwarded.slice(0, 0)]' }]
  }
]
