/** deploy/kubernetes as kubectl renders it: right by the schemas, and right in what no schema sees. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { parse } from 'yaml'
import { parseDuration } from '../../../src/config/read/units.ts'
import { needs } from '../../harness/needs.ts'
import { dockerfile, ROOT } from '../shipped.ts'
import { configurationOf, containerOf, oneOf, podsOf, renderOverlay, renderOwn } from './rendered.ts'
import type { Manifest } from './rendered.ts'
import { mistakesOf } from './schemas.ts'

const GUIDE = readFileSync(join(ROOT, 'docs/guides/deploy-on-kubernetes.md'), 'utf8')
const MONITOR = 'namespace: onceway\nresources: [$KUBERNETES/overlays/postgres]\ncomponents: [$KUBERNETES/components/service-monitor]\n'

type Labels = Readonly<Record<string, string>>
const fits = (selector: Labels, labels: Labels = {}): boolean => Object.entries(selector).every(([name, value]) => labels[name] === value)
const mebibytes = (size: string): number => Number(/^(\d+)Mi$/.exec(size)?.[1])

describe('the manifests', needs('kubectl'), () => {
  const overlays = { postgres: renderOverlay('postgres'), 'postgres-redis': renderOverlay('postgres-redis'), monitored: renderOwn(MONITOR) }

  test('have no mistake by the schemas, and the schemas see a wrong field of each kind', { timeout: 120_000 }, async () => {
    const right = Object.values(overlays).flat()
    const wrong = WRONG.map(([kind, change]) => {
      const manifest = structuredClone(right.find((each) => each.kind === kind)) as Manifest
      change(manifest)
      return manifest
    })
    const mistakes = await mistakesOf([...right, ...wrong])
    assert.deepEqual(mistakes.slice(0, right.length).flat(), [])
    assert.deepEqual(new Set(right.map(({ kind }) => kind)), new Set(WRONG.map(([kind]) => kind)))
    for (const [number, [kind, , mistake]] of WRONG.entries()) {
      assert.match(mistakes[right.length + number]?.join('\n') ?? '', mistake, kind)
    }
  })

  for (const [name, manifests] of Object.entries(overlays)) describe(name, () => { assertFacts(manifests) })

  test('with Redis only the gateways have more: where its URL is, and a port to reach it', () => {
    const [with_, without] = [overlays['postgres-redis'], overlays.postgres]
    const added = with_.filter((manifest) => !without.some((other) => JSON.stringify(other) === JSON.stringify(manifest)))
    assert.deepEqual(added.map(({ kind, metadata }) => `${kind} ${metadata.name}`), ['Deployment onceway', 'NetworkPolicy onceway-redis'])
    const of = (all: readonly Manifest[]): unknown[] => containerOf(oneOf(all, 'Deployment')).env
    assert.deepEqual(of(with_).filter((each) => !of(without).some((other) => JSON.stringify(other) === JSON.stringify(each))), [
      { name: 'ONCEWAY_STORES_REDIS_URL_FILE', value: '/run/secrets/onceway/redis-url' }
    ])
  })

  test('the monitor finds the Service of the admin port', () => {
    const { spec } = oneOf(overlays.monitored, 'ServiceMonitor')
    const services = overlays.monitored.filter(({ kind }) => kind === 'Service')
    const found = services.filter(({ metadata }) => fits(spec.selector.matchLabels, metadata.labels))
    assert.deepEqual(found.map(({ metadata }) => metadata.name), ['onceway-admin'])
    assert.deepEqual(spec.endpoints.map(({ port }: Named) => port), found[0]?.spec.ports.map(({ name }: Named) => name))
  })

  test('the directory of the guide replaces configuration and image, and another configuration is a roll-out', () => {
    const [kustomization = '', configuration = ''] = Array.from(GUIDE.matchAll(/```yaml\n([\s\S]*?)```/g), ([, text]) => text)
    const rendered = (text: string): Manifest[] =>
      renderOwn(kustomization.replaceAll('onceway/deploy/kubernetes', '$KUBERNETES'), { 'onceway.yaml': text })
    const own = rendered(configuration)
    assert.equal(configurationOf(own).text, configuration)
    for (const { spec } of podsOf(own)) assert.match(spec.containers[0].image, /^registry\.example\.com\/payments\/onceway:\d/)
    const other = rendered(`${configuration}log: { level: warn }\n`)
    assert.notEqual(configurationOf(other).name, configurationOf(own).name)
    assert.notDeepEqual(oneOf(other, 'Deployment').spec.template, oneOf(own, 'Deployment').spec.template)
  })
})

/** A field that does not exist or a value that is none, in each kind. */
// eslint-disable-next-line @typescript-eslint/no-explicit-any -- it is made wrong
const WRONG: ReadonlyArray<readonly [string, (manifest: any) => void, RegExp]> = [
  ['Namespace', ({ metadata }) => { metadata.label = {} }, /"label"' does not exist/],
  ['ServiceAccount', (manifest) => { manifest.automountToken = false }, /"automountToken"' does not exist/],
  ['ConfigMap', ({ data }) => { data.number = 1 }, /must be string/],
  ['Service', ({ spec }) => { spec.ports[0].targetport = 'http' }, /"targetport"' does not exist/],
  ['Deployment', ({ spec }) => { spec.template.spec.containers[0].readynessProbe = {} }, /"readynessProbe"' does not exist/],
  ['PodDisruptionBudget', ({ spec }) => { spec.unhealthyPodEvictionPolicy = 'Always' }, /allowed values/],
  ['HorizontalPodAutoscaler', ({ spec }) => { spec.minReplicas = '2' }, /must be integer/],
  ['Job', ({ spec }) => { spec.ttlSecondsAfterDone = 1 }, /"ttlSecondsAfterDone"' does not exist/],
  ['NetworkPolicy', ({ spec }) => { delete spec.podSelector; spec.selector = {} }, /"selector"' does not exist/],
  ['ServiceMonitor', ({ spec }) => { spec.endpoints[0].scrapeTimeOut = '1s' }, /"scrapeTimeOut"' does not exist/]
]

function assertFacts (manifests: readonly Manifest[]): void {
  const deployment = oneOf(manifests, 'Deployment')
  const pod = deployment.spec.template.spec
  const container = containerOf(deployment)
  const { name: configurationName, text } = configurationOf(manifests)
  const configuration = parse(text)

  test('all of it is in one namespace, which allows nothing that needs rights', () => {
    const namespace = oneOf(manifests, 'Namespace')
    assert.equal(namespace.metadata.labels?.['pod-security.kubernetes.io/enforce'], 'restricted')
    const elsewhere = manifests.filter(({ kind, metadata }) => kind !== 'Namespace' && metadata.namespace !== 'onceway')
    assert.deepEqual(elsewhere.map(({ kind, metadata }) => `${kind} ${metadata.name}`), [])
  })

  test('pods are the image\'s user, can write nothing, have no right and no token', () => {
    const [uid, gid] = dockerfile('USER').split(':').map(Number)
    for (const { spec } of podsOf(manifests)) {
      const [{ securityContext, resources }] = spec.containers
      assert.deepEqual(spec.securityContext, {
        runAsNonRoot: true,
        runAsUser: uid,
        runAsGroup: gid,
        fsGroup: gid,
        seccompProfile: { type: 'RuntimeDefault' }
      })
      assert.deepEqual(securityContext, { allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: { drop: ['ALL'] } })
      assert.equal(spec.automountServiceAccountToken, false)
      assert.equal(spec.serviceAccountName, oneOf(manifests, 'ServiceAccount').metadata.name)
      assert.ok(mebibytes(resources.requests.memory) < mebibytes(resources.limits.memory))
      assert.equal(spec.volumes.every(({ secret }: Named) => secret === undefined || secret.defaultMode === 0o440), true)
    }
  })

  test('gateways and the migration are of one release, the package\'s', () => {
    const { version } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'))
    const images = podsOf(manifests).map(({ spec }) => String(spec.containers[0].image))
    for (const image of images) assert.equal(image, `registry.example.com/onceway:${version}`)
  })

  test('ports are those of the configuration and of the image, and everything that names one finds it', () => {
    const { listen, admin } = configuration
    assert.deepEqual(container.ports, [{ name: 'http', containerPort: listen.port }, { name: 'admin', containerPort: admin.port }])
    assert.deepEqual(dockerfile('EXPOSE').split(' ').map(Number), [listen.port, admin.port])
    assert.deepEqual([listen.host, admin.host], ['0.0.0.0', '0.0.0.0'])
    for (const probe of ['startupProbe', 'livenessProbe', 'readinessProbe']) assert.equal(container[probe].httpGet.port, 'admin', probe)
    const services = manifests.filter(({ kind }) => kind === 'Service')
    assert.deepEqual(services.map(({ spec }) => spec.ports[0].targetPort), ['http', 'admin'])
    const { spec } = oneOf(manifests, 'NetworkPolicy')
    assert.deepEqual(spec.ingress.map(({ ports }: { ports: Array<{ port: string }> }) => ports[0]?.port), ['http', 'admin'])
  })

  test('a policy lets gateways out to the upstreams\' port', () => {
    const ports = Object.values(configuration.upstreams as Record<string, { url: string }>).map(({ url }) => Number(new URL(url).port))
    const { egress } = oneOf(manifests, 'NetworkPolicy', 'onceway-upstreams').spec
    assert.deepEqual(egress.flatMap((rule: { ports: Array<{ port: number }> }) => rule.ports.map(({ port }) => port)), ports)
  })

  test('selectors select the gateways, and what is for the migration too selects it', () => {
    const labels = deployment.spec.template.metadata.labels as Labels
    const migration = oneOf(manifests, 'Job', 'onceway-migrate').spec.template.metadata.labels as Labels
    const selectors = manifests.flatMap(({ kind, metadata, spec }): Array<readonly [string, Labels]> => {
      const name = `${kind} ${metadata.name}`
      if (kind === 'Service') return [[name, spec.selector]]
      if (kind === 'NetworkPolicy') return [[name, spec.podSelector.matchLabels]]
      return kind === 'Deployment' || kind === 'PodDisruptionBudget' ? [[name, spec.selector.matchLabels]] : []
    })
    for (const { labelSelector } of pod.topologySpreadConstraints) selectors.push(['spread', labelSelector.matchLabels])
    for (const [name, selector] of selectors) assert.ok(fits(selector, labels), name)
    assert.deepEqual(selectors.filter(([, selector]) => fits(selector, migration)).map(([name]) => name), [
      'NetworkPolicy onceway-dns',
      'NetworkPolicy onceway-postgres'
    ])
  })

  test('a drain fits the grace period', () => {
    const [delayMs, timeoutMs] = [parseDuration(configuration.drain.delay), parseDuration(configuration.drain.timeout)]
    assert.ok(delayMs !== null && delayMs > 0 && timeoutMs !== null)
    assert.ok(pod.terminationGracePeriodSeconds * 1_000 > delayMs + timeoutMs)
  })

  test('two gateways at least, of which one may be evicted, and none goes before another is ready', () => {
    const { spec: { minReplicas, maxReplicas, scaleTargetRef, metrics } } = oneOf(manifests, 'HorizontalPodAutoscaler')
    assert.ok(minReplicas >= 2 && maxReplicas > minReplicas)
    assert.deepEqual(scaleTargetRef, { apiVersion: deployment.apiVersion, kind: deployment.kind, name: deployment.metadata.name })
    assert.deepEqual(metrics.map(({ containerResource }: Named) => containerResource.container), [container.name])
    assert.ok(container.resources.requests.cpu !== undefined, 'utilization is a part of what is requested')
    assert.equal(deployment.spec.replicas, undefined)
    const { maxUnavailable } = oneOf(manifests, 'PodDisruptionBudget').spec
    assert.ok(maxUnavailable >= 1 && maxUnavailable < minReplicas)
    assert.equal(deployment.spec.strategy.rollingUpdate.maxUnavailable, 0)
  })

  test('V8\'s heap is half of the limit of memory', () => {
    const options = container.env.find(({ name }: Named) => name === 'NODE_OPTIONS')
    assert.equal(options.value, `--max-old-space-size=${mebibytes(container.resources.limits.memory) / 2}`)
  })

  test('what pods mount is there: the configuration, and the Secrets that the guide makes', () => {
    const secrets = new Map(Array.from(
      GUIDE.matchAll(/create secret generic (\S+)((?:.*\\\n)*.*)/g),
      ([, name = '', words = '']) => [name, Array.from(words.matchAll(/--from-(?:literal|file)=([a-z-]+)/g), ([, key]) => key)]
    ))
    for (const { spec: { volumes, containers: [{ volumeMounts, env }] } } of podsOf(manifests)) {
      assert.deepEqual(volumeMounts.map(({ name }: Named) => name), volumes.map(({ name }: Named) => name))
      const files = new Map<string, string>()
      for (const { name, configMap, secret } of volumes) {
        if (configMap !== undefined) assert.equal(configMap.name, configurationName)
        const { mountPath } = volumeMounts.find((mount: Named) => mount.name === name)
        for (const key of secrets.get(secret?.secretName) ?? []) files.set(`${mountPath}/${key}`, name)
      }
      const named = [...text.matchAll(/\/run\/secrets\/[\w/-]+/g)].map(([path]) => path)
      const inEnv = env.map(({ value }: { value: string }) => value).filter((value: string) => value.startsWith('/'))
      assert.ok(named.length === 3 && [...named, ...inEnv].every((path) => files.has(path)), [...named, ...inEnv].join(' '))
    }
  })
}

// eslint-disable-next-line @typescript-eslint/no-explicit-any -- parts of Kubernetes' own shapes
type Named = any
