// The built @eaas/audit without anything of Node, as a page has it: noble hashes and verifies, and the verdicts are those of the vectors.
import { fileURLToPath } from 'node:url'
import { createContext, Script } from 'node:vm'
import { build } from 'esbuild'
import { beforeAll, describe, expect, it } from 'vitest'
import checkpoints from '../../packages/audit/src/formats/checkpoint.vectors.json' with { type: 'json' }
import vectors from '../../packages/audit/src/formats/export.vectors.json' with { type: 'json' }
import type * as auditModule from '../../packages/audit/src/index.js'
import type { ExportVerdict, VerifyExportOptions } from '../../packages/audit/src/verify/verify-export.js'
import { optionsOf, refusedExport } from '../support/audit/refused-export.js'

let page: { audit: typeof auditModule }

beforeAll(async () => {
  const entry = fileURLToPath(new URL('../../packages/audit/dist/index.js', import.meta.url))
  const { outputFiles } = await build({
    entryPoints: [entry],
    bundle: true,
    platform: 'browser',
    format: 'iife',
    globalName: 'audit',
    write: false,
  })
  // What is no part of the language; neither process nor Buffer.
  page = createContext({ TextEncoder, TextDecoder, Uint8Array, atob, btoa }) as typeof page
  new Script(outputFiles[0]?.text ?? '').runInContext(page)
})

/** What the page says of a file, as plain data of this realm. */
async function judge(file: Uint8Array, options: VerifyExportOptions): Promise<ExportVerdict> {
  const { audit } = page
  return JSON.parse(JSON.stringify(await audit.verifyExport(audit.splitLines([new Uint8Array(file)]), options)))
}

describe('@eaas/audit in a page', () => {
  it.each(vectors.valid)('takes the export: $name', async ({ file, verdict, ...given }) => {
    expect(await judge(Buffer.from(file), optionsOf(given))).toMatchObject({ ...verdict, valid: true })
  })

  it.each(vectors.refuse)('refuses the export: $name', async (row) => {
    expect(await judge(refusedExport(row), optionsOf(row))).toMatchObject({ valid: false, line: row.line })
  })

  it('refuses a checkpoint with any byte of its signature altered', () => {
    const { audit } = page
    const [good] = checkpoints.sign
    const note = good?.note ?? ''
    expect(audit.readCheckpoint(note, checkpoints.public_key).last_id).toBe(good?.statement.last_id)
    const at = note.lastIndexOf(' ') + 1
    const bytes = Buffer.from(note.slice(at).trim(), 'base64')
    for (let byte = 4; byte < bytes.length; byte++) {
      const altered = Buffer.from(bytes)
      altered[byte] = (bytes[byte] ?? 0) ^ 1
      const other = `${note.slice(0, at)}${altered.toString('base64')}\n`
      expect(() => audit.readCheckpoint(other, checkpoints.public_key), `${byte}`).toThrow()
    }
  })
})
