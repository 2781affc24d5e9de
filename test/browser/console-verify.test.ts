// The page that verifies exports, opened from disk: it shows the report of eaas-audit report, and asks the network for nothing.
import { createSecretKey } from 'node:crypto'
import { copyFile, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { encodePublicKey } from '../../packages/audit/src/formats/checkpoint.js'
import { signingKeyOf } from '../../packages/audit/src/node/signing-key.js'
import { verifyProof } from '../../packages/audit/src/verify/verify-proof.js'
import { findConsoleDirectory } from '../../packages/server/src/package-directory.js'
import { reportedLog, SIGNED_AT } from '../support/audit/reported-log.js'
import { cutExport, publicKey, writeExport } from '../support/audit/written-export.js'
import { inChromium, type OpenedPage, weakContrasts } from './chromium-pages.js'

let folder: string
let url: string

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'eaas-verify-'))
  await copyFile(join(findConsoleDirectory(), 'console/verify.html'), join(folder, 'verify.html'))
  const lines = [...writeExport(reportedLog(), SIGNED_AT)]
  const text = lines.join('')
  const [first = '', second = ''] = cutExport(lines, [400], SIGNED_AT)
  await writeFile(join(folder, 'a.ndjson'), first)
  await writeFile(join(folder, 'b.ndjson'), second)
  await writeFile(join(folder, 'acme.ndjson'), text)
  await writeFile(join(folder, 'altered.ndjson'), text.replace('key.unwrap', 'key.wrap'))
  await writeFile(join(folder, 'operator.key'), `${publicKey}\n`)
  await writeFile(
    join(folder, 'another.key'),
    `${encodePublicKey(signingKeyOf(createSecretKey(Buffer.alloc(32, 8))))}\n`,
  )
  await writeFile(join(folder, 'note.txt'), 'no checkpoint')
  url = pathToFileURL(join(folder, 'verify.html')).href
})
afterAll(() => rm(folder, { recursive: true, force: true }))

inChromium('the page that verifies', ({ open }) => {
  const give = async ({ page }: OpenedPage, ...names: string[]) => {
    const chooser = page.waitForEvent('filechooser')
    await page.getByLabel('Choose files').click()
    await (await chooser).setFiles(names.map((name) => join(folder, name)))
    await page.getByText(`${names.at(-1)}:`).waitFor()
  }
  /** When the first entry of an export was written. */
  const firstTime = async (name: string): Promise<string> => {
    const [, entry = ''] = (await readFile(join(folder, name), 'utf8')).split('\n')
    return JSON.parse(entry).created_at
  }
  const verify = ({ page }: OpenedPage) => page.getByRole('button', { name: 'Verify' }).click()

  it.each(['light', 'dark'] as const)('verifies in a worker and shows the report, %s', async (colorScheme) => {
    const opened = await open(url, { colorScheme })
    const { page, requests, complaints, violations, close } = opened
    await give(opened, 'acme.ndjson', 'operator.key')
    expect(await page.getByLabel('until before').inputValue()).toBe(SIGNED_AT)
    await verify(opened)
    const verdict = await page.locator('.report .verdict').innerText()
    expect(verdict).toMatch(/^The export is valid: each of its \d+ entries is as the server signed it/)
    const titles = await page.locator('.report h2').allInnerTexts()
    expect(titles).toContain('Rights')
    expect(await weakContrasts(page)).toEqual([])
    // The file itself, and the worker, which is text of the file.
    expect(requests.filter((request) => !/^(file|blob|data):/.test(request.url()))).toEqual([])
    expect(await violations()).toEqual([])
    expect(complaints).toEqual([])
    await close()
  })

  it('saves a proof of the entries that a link named, which eaas-audit verify-proof accepts', async () => {
    const opened = await open(`${url}#entry=17`)
    const { page, requests, complaints, close } = opened
    await give(opened, 'b.ndjson', 'a.ndjson', 'operator.key')
    const prove = () => page.getByRole('button', { name: 'Save a proof' }).click()
    const download = page.waitForEvent('download')
    await prove()
    const saved = await download
    expect(saved.suggestedFilename()).toBe('entries-17.proof')
    await saved.saveAs(join(folder, '17.proof'))
    const proof = await readFile(join(folder, '17.proof'), 'utf8')
    const verdict = verifyProof(proof, { publicKey })
    expect(verdict).toMatchObject({ valid: true, trusted_key: true, after_id: 0, last_id: 400 })
    expect(verdict.entries.map(({ id }) => id)).toEqual([17])
    for (const [entries, said] of [
      ['400 401', 'no export has all of these entries'],
      ['877', 'b.ndjson has no entry 877'],
      ['x', 'must be their numbers'],
    ] as const) {
      await page.getByLabel('Entries to prove').fill(entries)
      await prove()
      await expect.poll(() => page.getByRole('alert').innerText()).toContain(said)
    }
    expect(requests.filter((request) => !/^(file|blob|data):/.test(request.url()))).toEqual([])
    expect(complaints).toEqual([])
    await close()
  })

  it.each([
    ['an altered export', ['altered.ndjson']],
    ["an export that another operator's key signed", ['acme.ndjson', 'another.key']],
  ])('proves nothing from %s', async (_what, files) => {
    const opened = await open(url)
    await give(opened, ...files)
    await opened.page.getByLabel('Entries to prove').fill('1')
    await opened.page.getByRole('button', { name: 'Save a proof' }).click()
    await expect.poll(() => opened.page.getByRole('alert').innerText()).toContain('NOT valid, so it proves nothing')
    await opened.close()
  })

  it('verifies by the key that was entered, never by one of a file that was given later', async () => {
    const opened = await open(url)
    const { page } = opened
    const field = page.getByLabel('Public key')
    const alert = page.getByRole('alert')
    await field.fill(publicKey)
    await give(opened, 'acme.ndjson', 'another.key')
    expect(await field.inputValue()).toBe(publicKey)
    expect(await alert.innerText()).toContain('The public key in another.key is not the one in the field')
    await page.getByLabel('Entries to prove').fill('1')
    await page.getByRole('button', { name: 'Save a proof' }).click()
    await verify(opened)
    expect(await alert.innerText()).toContain('remove the file')
    expect(await page.locator('.report').count()).toBe(0)
    await page.getByRole('button', { name: 'Remove another.key' }).click()
    await verify(opened)
    expect(await page.locator('.report .verdict').innerText()).toMatch(/^The export is valid/)
    expect(await alert.count()).toBe(0)
    await opened.close()
  })

  it('proposes the period of all exports, whichever was given first, and leaves what the auditor typed', async () => {
    const opened = await open(url)
    const { page } = opened
    const [from, to] = [page.getByLabel('Period from'), page.getByLabel('until before')]
    const [first, later] = [firstTime('a.ndjson'), firstTime('b.ndjson')]
    await give(opened, 'b.ndjson')
    expect([await from.inputValue(), await to.inputValue()]).toEqual([await later, SIGNED_AT])
    await to.fill('2026-06-01T00:00:00Z')
    await give(opened, 'a.ndjson')
    expect([await from.inputValue(), await to.inputValue()]).toEqual([await first, '2026-06-01T00:00:00Z'])
    await page.getByRole('button', { name: 'Remove a.ndjson' }).click()
    expect([await from.inputValue(), await to.inputValue()]).toEqual([await later, '2026-06-01T00:00:00Z'])
    await from.fill('2026-05-01T00:00:00Z')
    await to.fill('')
    await give(opened, 'a.ndjson')
    expect([await from.inputValue(), await to.inputValue()]).toEqual(['2026-05-01T00:00:00Z', SIGNED_AT])
    await opened.close()
  })

  it('may not reach the network, whatever runs in it', async () => {
    const { page, violations, close } = await open(url)
    const outcome = await page.evaluate(() => fetch('https://example.org/').then(String, () => 'refused'))
    expect(outcome).toBe('refused')
    await expect.poll(violations).toEqual(['connect-src'])
    await close()
  })

  it('says that an altered export is not valid, and reports nothing from it', async () => {
    const opened = await open(url)
    await give(opened, 'altered.ndjson')
    await verify(opened)
    expect(await opened.page.locator('.report .verdict').innerText()).toMatch(/^The export is NOT valid/)
    expect(await opened.page.locator('.report h2').count()).toBe(0)
    await opened.close()
  })

  it('refuses what is no checkpoint, rather than to compare nothing', async () => {
    const opened = await open(url)
    await give(opened, 'acme.ndjson', 'note.txt')
    await verify(opened)
    expect(await opened.page.getByRole('alert').innerText()).toContain('need the public key')
    await give(opened, 'operator.key')
    await verify(opened)
    await expect.poll(() => opened.page.getByRole('alert').innerText()).toMatch(/checkpoint/)
    expect(await opened.page.locator('.report').count()).toBe(0)
    await opened.close()
  })
})
