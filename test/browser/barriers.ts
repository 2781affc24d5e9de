// What looks for barriers in pages: https://github.com/dequelabs/axe-core.
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import type { Page } from 'playwright-core'

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')

interface Results {
  violations: { id: string; nodes: { html: string }[] }[]
}

/** The rules of axe that the page breaks, each with what breaks it. */
export async function findBarriers(page: Page): Promise<string[]> {
  await page.evaluate(AXE)
  return page.evaluate(async () => {
    const { axe } = globalThis as unknown as { axe: { run(): Promise<Results> } }
    const { violations } = await axe.run()
    return violations.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).join(' ')}`)
  })
}
