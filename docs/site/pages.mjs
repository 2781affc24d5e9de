// The pages of the site, in the order of its navigation.
import { readdirSync } from 'node:fs'
import { join } from 'node:path'

/** @typedef {{ title: string, pages: string[] }} Section a heading of the navigation, and the Markdown files below it */

/** @typedef {{ name: string, source: string }} Entry an entry of a package: what programs import, and its source */

/** @type {readonly Entry[]} */
export const API_ENTRIES = [
  { name: '@eaas/audit', source: 'packages/audit/src/index.ts' },
  { name: '@eaas/cli/backfill', source: 'packages/cli/src/backfill.ts' },
  { name: '@eaas/sdk', source: 'packages/sdk/src/index.ts' },
  { name: '@eaas/sdk/adapter', source: 'packages/sdk/src/adapter.ts' },
  { name: '@eaas/sdk/broker', source: 'packages/sdk/src/broker.ts' },
  { name: '@eaas/sdk/maintenance', source: 'packages/sdk/src/maintenance.ts' },
  { name: '@eaas/sdk/offline', source: 'packages/sdk/src/offline.ts' },
  { name: '@eaas/sdk/streams', source: 'packages/sdk/src/streams.ts' },
  { name: '@eaas/sdk/sync', source: 'packages/sdk/src/sync.ts' },
  { name: '@eaas/sdk/testing', source: 'packages/sdk/src/testing.ts' },
  { name: '@eaas/drizzle', source: 'packages/drizzle/src/index.ts' },
  { name: '@eaas/kysely', source: 'packages/kysely/src/index.ts' },
  { name: '@eaas/prisma', source: 'packages/prisma/src/index.ts' },
  { name: '@eaas/typeorm', source: 'packages/typeorm/src/index.ts' },
  { name: '@eaas/server', source: 'packages/server/src/index.ts' },
]

/** Pages to be read in this order; those of the folder that are not named come after them. */
const SDK_DOCS = [
  'models',
  'many-rows',
  'single-values',
  'binding',
  'application-secret',
  'search',
  'choose-indexes',
  'index-of-parts',
  'index-of-ranges',
  'streams',
  'rotation',
  'deleting-a-person',
  'erasure-on-disk',
  'dek-cache-and-audit',
  'events',
  'orms',
  'drizzle',
  'kysely',
  'prisma',
  'typeorm',
  'writing-an-adapter',
  'existing-application',
  'servers',
  'full-stack',
  'browser',
  'sealed-forms',
  'testing',
  'network',
  'runtimes',
  'errors',
  'service-errors',
]

/** Those of the server, likewise. */
const SERVER_DOCS = [
  'production',
  'settings',
  'configuration',
  'postgresql',
  'upgrade',
  'several-processes',
  'listening',
  'monitoring',
  'limits',
  'tenants',
  'rights-by-program',
  'other-languages',
  'verify-the-log',
  'verify-an-export',
  'checkpoints',
  'witnesses',
  'what-is-detected',
  'retention',
  'backup-and-restore',
  'alarms',
  'rollback',
  'repair-a-log',
]

/**
 * The sections of the site. A page that is added to one of the folders is added to the site.
 *
 * @param {string} root the folder of the project
 * @returns {Section[]}
 */
export function listSections(root) {
  const examples = readdirSync(join(root, 'examples')).flatMap((name) => markdownIn(root, `examples/${name}`))
  const specs = ['protocol', 'audit', 'sdk', 'server'].flatMap((name) => markdownBelow(root, `packages/${name}/src`))
  return [
    { title: 'Start', pages: ['README.md', 'SECURITY.md'] },
    { title: 'Coming from', pages: markdownIn(root, 'docs/coming-from') },
    { title: 'The SDK', pages: ['packages/sdk/README.md', ...inOrder(root, 'packages/sdk/docs', SDK_DOCS)] },
    { title: 'The command line', pages: ['packages/cli/README.md', ...markdownIn(root, 'packages/cli/docs')] },
    {
      title: 'The server',
      pages: ['packages/server/README.md', ...inOrder(root, 'packages/server/docs', SERVER_DOCS)],
    },
    { title: 'The audit log', pages: ['packages/audit/README.md', ...markdownIn(root, 'packages/audit/docs')] },
    { title: 'The contract', pages: ['packages/conformance/README.md'] },
    { title: 'Formats', pages: specs },
    { title: 'Examples', pages: examples },
    { title: 'The project', pages: [...markdownIn(root, 'docs'), 'CONTRIBUTING.md'] },
    { title: 'Decisions', pages: markdownIn(root, 'docs/decisions') },
  ]
}

/** @param {string} root @param {string} folder @param {string[]} names of the first pages @returns {string[]} */
function inOrder(root, folder, names) {
  const pages = markdownIn(root, folder)
  const first = names.map((name) => `${folder}/${name}.md`).filter((page) => pages.includes(page))
  return [...new Set([...first, ...pages])]
}

/** @param {string} root @param {string} folder @returns {string[]} */
function markdownIn(root, folder) {
  return readdirSync(join(root, folder), { withFileTypes: true })
    .filter((entry) => entry.isFile() && entry.name.endsWith('.md'))
    .map(({ name }) => `${folder}/${name}`)
    .sort()
}

/** @param {string} root @param {string} folder @returns {string[]} without READMEs, which are for contributors */
function markdownBelow(root, folder) {
  const below = readdirSync(join(root, folder), { withFileTypes: true }).filter((entry) => entry.isDirectory())
  const own = markdownIn(root, folder).filter((page) => !page.endsWith('README.md'))
  return [...own, ...below.flatMap(({ name }) => markdownBelow(root, `${folder}/${name}`))]
}
