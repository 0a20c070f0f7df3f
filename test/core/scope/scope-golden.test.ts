/**
 * The scopes of rules 1, as the releases before rules 2 made them. Existing rows are found by these texts. A line here changes only
 * together with every existing row.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { ScopePart, ScopePolicy } from '../../../src/core/policy/policy.ts'
import { scopeOf } from '../../../src/core/scope/scope.ts'
import { callerWith, FIRST_RULES } from '../../harness/caller.ts'

const parts = (...list: readonly ScopePart[]): ScopePolicy => ({ kind: 'parts', parts: list })
const TENANT = { kind: 'header', name: 'x-tenant' } as const

const POLICIES = {
  credential: { kind: 'credential', anonymous: false, cookies: 'refuse' },
  quick: { kind: 'credential', anonymous: true, cookies: 'refuse' },
  public: { kind: 'credential', anonymous: true, cookies: 'ignore' },
  shared: parts({ kind: 'const', value: 'shared' }),
  tenant: parts(TENANT),
  'tenant+sid': parts(TENANT, { kind: 'cookie', name: 'Sid' }),
  sub: parts({ kind: 'jwt', claim: 'sub' }),
  'sub+v1': parts({ kind: 'jwt', claim: 'sub' }, { kind: 'const', value: 'v1' })
} as const satisfies Record<string, ScopePolicy>

/** null: scope-missing. Printed by the code of 0.1.0, before rules 2 existed. */
const GOLDEN: ReadonlyArray<
  readonly [
    policy: keyof typeof POLICIES,
    rawHeaders: readonly string[],
    claims: Readonly<Record<string, unknown>> | null,
    scope: string | null
  ]
> = [
  ['credential', ['Authorization', 'Bearer abc'], null, 'bearer:4tDPjTWmULtgzUr59EPo6iyHnkBtYh2BzS60lw1cMsU'],
  ['credential', ['authorization', 'bearer   abc '], null, 'bearer:4tDPjTWmULtgzUr59EPo6iyHnkBtYh2BzS60lw1cMsU'],
  ['credential', ['Authorization', 'Basic dTpw'], null, 'basic:0DqNYcYZ6IWvNSK_r2G6DrhQOCLyIIyZiuv_8z3bWy8'],
  ['credential', ['Authorization', 'Token abc'], null, 'authorization:sL6O4Rxlu0oc3RL4QshK30ZEDVPNYdx63rwOrIuXJ8U'],
  ['credential', ['Authorization', 'JustAToken'], null, 'authorization:yOVZ7OO3goc_V713kDZrQkpKT_vswO0FfFVaYapBdkc'],
  [
    'credential',
    ['Authorization', 'AWS4-HMAC-SHA256 Credential=AKID/20240101/eu/s3/aws4_request, SignedHeaders=host, Signature=aa'],
    null,
    'aws4:HMcOg65RcvGqaj2Pv4AZguea-gB5fbERXQHozrb_ru0'
  ],
  [
    'credential',
    ['Authorization', 'Signature keyId="k1",algorithm="hs2019",signature="a=="'],
    null,
    'signature:Lxa2fOzrgy052SSGNBmfUvBfeadtUL0cEMJa48AjlVU'
  ],
  ['credential', ['Authorization', 'Hawk id="h", ts="1", mac="x"'], null, 'hawk:SWgD7T0JofOXUO75C_mAuTHnxBOPFnm5Qq5lXd2glQw'],
  [
    'credential',
    ['Authorization', 'Digest username="u", realm="r", response="1"'],
    null,
    'digest:-hTEKm233m3H-vYS0n26u6IUHns0w3EBGHqzy4OTy74'
  ],
  [
    'credential',
    ['Authorization', 'OAuth oauth_consumer_key="c", oauth_token="t", oauth_nonce="1"'],
    null,
    'oauth:PJOgi1lnNYlnucuaVJl0VwFa8YO4Xqz7jvbnCTtZLhI'
  ],
  ['credential', ['Authorization', 'OAuth plain'], null, null],
  ['credential', ['Authorization', 'SharedKey account:sig'], null, 'authorization:VFbxeovuz4oYXpwt_AbpQaAJu0tuvIG3nloMD91Bjg4'],
  ['credential', ['Authorization', 'DPoP tok'], null, 'authorization:12I9NDxPou9bLWnYREud6uDLcVwgZrtKedi1ptQ3aEI'],
  ['credential', ['X-Api-Key', ' k '], null, 'api-key:FiaaD0z5WU5gU8zQ_QNr87AWgfgdWEUuIdc82RB0qSo'],
  ['credential', ['X-Api-Key', 'k', 'Authorization', 'Bearer abc'], null, 'bearer:4tDPjTWmULtgzUr59EPo6iyHnkBtYh2BzS60lw1cMsU'],
  ['credential', ['X-Api-Key', 'k', 'Stripe-Account', 'acct_1'], null, 'api-key:FiaaD0z5WU5gU8zQ_QNr87AWgfgdWEUuIdc82RB0qSo'],
  ['credential', ['X-Auth-Token', 't'], null, null],
  ['credential', ['Cookie', 'a=b'], null, null],
  ['credential', [], null, null],
  ['quick', [], null, 'anonymous'],
  ['quick', ['Cookie', 'a=b'], null, null],
  ['quick', ['X-Auth-Token', 't'], null, 'anonymous'],
  ['public', ['Cookie', 'a=b'], null, 'anonymous'],
  ['public', [], null, 'anonymous'],
  ['public', ['Authorization', 'Bearer abc'], null, 'bearer:4tDPjTWmULtgzUr59EPo6iyHnkBtYh2BzS60lw1cMsU'],
  ['shared', ['Authorization', 'Bearer abc'], null, 'const:kfeKapMRo810lJoavuf9511aM1WlOvNt9XchIiOO5Sc'],
  ['tenant', ['X-Tenant', ' t1 '], null, 'header:x-tenant:5zkbwlHunkiArfCVaBW1GSf2z2PJVWk6KJy1izHHPXg'],
  ['tenant', ['X-Tenant', ''], null, null],
  ['tenant', ['X-Tenant', 'a', 'x-tenant', 'a'], null, null],
  [
    'tenant+sid',
    ['X-Tenant', 't1', 'Cookie', 'a=1; Sid="q"; sid=2'],
    null,
    'header:x-tenant,cookie:Sid:3EFajP6m9hU7nmlxr-LBkw-OxDgvA1kKJUf2_4pFm1Q'
  ],
  ['sub', [], { sub: 'u1' }, 'jwt:sub:O_qBTjasLCY3etExrZiLlnMsPYWhxfsuwVyUjAsleVk'],
  ['sub', [], { sub: 1 }, 'jwt:sub:etEzaC_7eolgGuHjVAQhppVIyDkavSrn7vAVEz1Z-k8'],
  ['sub', [], {}, null],
  ['sub+v1', [], { sub: 'u1' }, 'jwt:sub,const:sGHCR9yfRtLAeMUx4x09zZgZQvfrfF6jU1H2UpyxDlQ'],
  ['tenant', ['X-Tenant', 'tü'], null, 'header:x-tenant:5QkiyqHSQux34LzdUr0XKcwJcsdWrOvO4baQGYgWHtg']
]

for (const [policy, rawHeaders, claims, scope] of GOLDEN) {
  test(`rules 1, ${policy}: ${rawHeaders.join(' ')}${claims === null ? '' : ` ${JSON.stringify(claims)}`} is ${scope ?? 'nobody'}`, () => {
    const result = scopeOf(callerWith(rawHeaders), POLICIES[policy], claims, FIRST_RULES)
    assert.equal(result.kind === 'scope' ? result.scope : null, scope)
  })
}
