// `npm run docs`: the pages of this repository and the API reference as static HTML, in docs/site/dist. A link that leads nowhere
// is an error.
import { cpSync, existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { basename, dirname, join, posix } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { Marked } from 'marked'
import { apiPage, describeApi, escapeHtml } from './api.mjs'
import { DocsError } from './docs-error.mjs'
import { API_ENTRIES, listSections } from './pages.mjs'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const HERE = fileURLToPath(new URL('.', import.meta.url))

/**
 * @typedef {object} Page
 * @property {string} source the Markdown file, or the entry of the API
 * @property {string} path where it is in the site
 * @property {string} markdown
 * @property {string} title
 * @property {{ id: string, text: string, depth: number }[]} headings
 */

/**
 * Builds the site. What is in the folder is replaced only when all of the new site is written.
 *
 * @param {string} target a folder, which is replaced
 * @returns {Page[]}
 * @throws {DocsError} naming every link that leads nowhere
 */
export function buildSite(target) {
  const draft = join(dirname(target), `.${basename(target)}-draft-${process.pid}`)
  try {
    const pages = writeSite(draft)
    rmSync(target, { recursive: true, force: true })
    renameSync(draft, target)
    return pages
  } finally {
    rmSync(draft, { recursive: true, force: true })
  }
}

/** @param {string} target a folder that does not exist yet */
function writeSite(target) {
  const sections = listSections(ROOT).map(({ title, pages }) => ({ title, pages: pages.map(readPage) }))
  const api = describeApi(ROOT, API_ENTRIES)
  const reference = [...api].map(([name, { markdown }]) => createPage(name, `api/${apiPage(name)}`, markdown))
  sections.splice(3, 0, { title: 'API reference', pages: reference })
  const pages = sections.flatMap((section) => section.pages)
  const byPath = new Map(pages.map((page) => [page.path, page]))
  const bySource = new Map(pages.map((page) => [page.source, page]))

  mkdirSync(target)
  /** @type {string[]} */
  const dead = []
  for (const page of pages) {
    const resolve = (/** @type {string} */ href) => resolveLink(page, href, { bySource, dead })
    // A page lies in the site where its source lies in the project, and so do its images.
    const resolveImage = (/** @type {string} */ href) => {
      const image = posix.join(posix.dirname(page.source), href)
      if (existsSync(join(ROOT, image))) cpSync(join(ROOT, image), join(target, image))
      else dead.push(`${page.source}: ${href}`)
      return href
    }
    const html = layOut(page, toHtml(page, resolve, resolveImage), sections)
    mkdirSync(dirname(join(target, page.path)), { recursive: true })
    writeFileSync(join(target, page.path), html)
  }
  cpSync(join(HERE, 'style.css'), join(target, 'style.css'))
  if (dead.length > 0) throw new DocsError(`links that lead nowhere:\n${dead.join('\n')}`)
  if (byPath.size !== pages.length) throw new DocsError('two pages have the same path')
  return pages
}

/** @param {string} source */
function readPage(source) {
  const path = source.replace(/README\.md$/, 'index.html').replace(/\.md$/, '.html')
  return createPage(source, path, readFileSync(join(ROOT, source), 'utf8'))
}

/** @param {string} source @param {string} path @param {string} markdown @returns {Page} */
function createPage(source, path, markdown) {
  /** @type {Page['headings']} */
  const headings = []
  const used = new Map()
  for (const token of new Marked().lexer(markdown)) {
    if (token.type !== 'heading') continue
    const text = token.text.replaceAll(/[`*]/g, '')
    // A method of the API, such as `Keys.rotate`, is #keys-rotate.
    const slug = slugOf(path.startsWith('api/') ? text.replace('.', '-') : text)
    const before = used.get(slug) ?? 0
    used.set(slug, before + 1)
    headings.push({ id: before === 0 ? slug : `${slug}-${before}`, text, depth: token.depth })
  }
  const [first] = headings
  if (first?.depth !== 1) throw new DocsError(`${source} must begin with a heading`)
  return { source, path, markdown, title: first.text, headings }
}

/** The anchor that GitHub gives a heading. @param {string} text */
function slugOf(text) {
  return text
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N} _-]/gu, '')
    .replaceAll(' ', '-')
}

/**
 * @param {Page} page
 * @param {(href: string) => string | undefined} resolve
 * @param {(href: string) => string} resolveImage
 */
function toHtml(page, resolve, resolveImage) {
  const headings = page.headings.values()
  const marked = new Marked({
    renderer: {
      heading({ tokens, depth }) {
        const { id = '' } = headings.next().value ?? {}
        const text = this.parser.parseInline(tokens)
        return `<h${depth} id="${id}">${text} <a class="anchor" href="#${id}" aria-label="Link to this section">#</a></h${depth}>\n`
      },
      link({ href, tokens }) {
        const text = this.parser.parseInline(tokens)
        const target = resolve(href)
        return target === undefined ? text : `<a href="${escapeHtml(target)}">${text}</a>`
      },
      codespan({ text }) {
        // Long paths in a narrow table break after a slash or a dot.
        return `<code>${text.length > 16 ? escapeHtml(text).replaceAll(/[/.](?=\w)/g, '$&<wbr>') : escapeHtml(text)}</code>`
      },
      image({ href, text }) {
        return `<img src="${escapeHtml(resolveImage(href))}" alt="${escapeHtml(text)}">`
      },
      table(token) {
        const cells = (/** @type {typeof token.header} */ row, /** @type {string} */ tag) =>
          row.map((cell) => `<${tag}>${this.parser.parseInline(cell.tokens)}</${tag}>`).join('')
        // Tables without a heading are common in the pages: an empty row would be read out.
        const isEmpty = token.header.every(({ text }) => text === '')
        const head = isEmpty ? '' : `<thead><tr>${cells(token.header, 'th')}</tr></thead>`
        const body = token.rows.map((row) => `<tr>${cells(row, 'td')}</tr>`).join('\n')
        return `<div class="table"><table>${head}<tbody>${body}</tbody></table></div>\n`
      },
    },
  })
  return /** @type {string} */ (marked.parse(page.markdown))
}

/**
 * Where a link leads in the site. A file that is not in the site has a page only in the repository: without its address, what the
 * link says is left as text.
 *
 * @param {Page} page
 * @param {string} href
 * @param {{ bySource: Map<string, Page>, dead: string[] }} site
 * @returns {string | undefined}
 */
function resolveLink(page, href, { bySource, dead }) {
  if (/^https?:/.test(href)) return href
  const [path = '', anchor] = href.split('#')
  const source = path === '' ? page.source : posix.join(posix.dirname(page.source), path)
  const target = bySource.get(source) ?? bySource.get(`${source.replace(/\/$/, '')}/README.md`)
  const isThere = target !== undefined || existsSync(join(ROOT, source))
  const isAnchor = anchor === undefined || target === undefined || target.headings.some(({ id }) => id === anchor)
  if (!isThere || !isAnchor) dead.push(`${page.source}: ${href}`)
  return target && relative(page, target) + (anchor === undefined ? '' : `#${anchor}`)
}

/** @param {Page} from @param {Page} to */
function relative(from, to) {
  return posix.relative(posix.dirname(from.path), to.path)
}

/**
 * @param {Page} page
 * @param {string} content
 * @param {{ title: string, pages: Page[] }[]} sections
 */
function layOut(page, content, sections) {
  const home = posix.relative(posix.dirname(page.path), 'index.html')
  const contents = sections.map(({ title, pages }) => {
    const items = pages.map((one) =>
      one === page ? listCurrent(page) : `<li><a href="${relative(page, one)}">${nameOf(one)}</a></li>`,
    )
    const open = pages.includes(page) ? ' open' : ''
    return `<details${open}><summary>${title}</summary>\n<ul>\n${items.join('\n')}\n</ul></details>`
  })
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${escapeHtml(page.path === 'index.html' ? 'EaaS' : `${page.title} · EaaS`)}</title>
<link rel="stylesheet" href="${posix.relative(posix.dirname(page.path), 'style.css')}">
</head>
<body>
<header><a class="name" href="${home}">EaaS</a> <a class="to-contents" href="#contents">Contents</a></header>
<main>
${content}</main>
<nav id="contents" aria-label="Contents">
<a class="close" href="#${page.headings[0]?.id}">Close</a>
${contents.join('\n')}
</nav>
</body>
</html>
`
}

/** The page that is read, with its sections. @param {Page} page */
function listCurrent(page) {
  const own = page.headings.filter(({ depth }) => depth === (page.path.startsWith('api/') ? 3 : 2))
  const items = own.map(({ id, text }) => `<li><a href="#${id}">${escapeHtml(text)}</a></li>`)
  const below = items.length > 0 ? `\n<ul>\n${items.join('\n')}\n</ul>` : ''
  return `<li><a href="#${page.headings[0]?.id}" aria-current="page">${nameOf(page)}</a>${below}</li>`
}

/** A page's name in the navigation. @param {Page} page */
function nameOf({ path, title }) {
  return escapeHtml(path === 'index.html' ? 'What it is' : title)
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  const target = join(HERE, 'dist')
  try {
    const pages = buildSite(target)
    process.stdout.write(`${pages.length} pages: open ${join(target, 'index.html')}\n`)
  } catch (error) {
    if (!(error instanceof DocsError)) throw error
    process.stderr.write(`${error.message}\n`)
    process.exitCode = 1
  }
}
