// The first step of `npm run release`: writes into each manifest that is published where the repository lives, which npm
// compares with the provenance of the build. It is filled in by hand in one place: `repository.url` of the root's manifest.
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'

const REPOSITORY = /^(?:git\+)?(https:\/\/[\w.-]+\/[\w.-]+\/[\w.-]+?)(?:\.git)?\/?$/

/**
 * Writes `repository`, `homepage` and `bugs` into the manifest of each public package.
 *
 * @param {string} root the folder of the root's manifest
 * @param {NodeJS.ProcessEnv} environment GitHub's own variables, where a workflow runs this
 * @returns {string[]} the names of the packages
 * @throws {Error} when `repository.url` is not filled in, or names another repository than the one that runs this
 */
export function fillRepository(root, environment) {
  const { repository } = readManifest(root)
  const url = REPOSITORY.exec(repository?.url ?? '')?.[1]
  if (url === undefined) {
    throw new Error(
      `package.json: repository.url must be where the repository lives, such as "https://github.com/OWNER/NAME", got ${JSON.stringify(repository?.url)}`,
    )
  }
  const { GITHUB_SERVER_URL: server, GITHUB_REPOSITORY: name } = environment
  if (name !== undefined && url.toLowerCase() !== `${server}/${name}`.toLowerCase()) {
    throw new Error(`package.json: repository.url is ${url}, but this is a build of ${server}/${name}`)
  }
  const folders = readdirSync(join(root, 'packages')).map((folder) => `packages/${folder}`)
  const published = folders.filter((folder) => readManifest(join(root, folder)).private !== true)
  for (const directory of published) {
    const manifest = {
      ...readManifest(join(root, directory)),
      repository: { type: 'git', url: `git+${url}.git`, directory },
      homepage: `${url}/tree/main/${directory}#readme`,
      bugs: `${url}/issues`,
    }
    writeFileSync(join(root, directory, 'package.json'), `${JSON.stringify(manifest, undefined, 2)}\n`)
  }
  return published.map((folder) => readManifest(join(root, folder)).name)
}

/** @param {string} folder */
function readManifest(folder) {
  return JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'))
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  try {
    const names = fillRepository(process.cwd(), process.env)
    process.stdout.write(`Wrote the repository into the manifests of ${names.join(', ')}.\n`)
  } catch (error) {
    process.stderr.write(`${error instanceof Error ? error.message : error}\n`)
    process.exitCode = 1
  }
}
