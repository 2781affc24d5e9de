/**
 * GET /docs: the OpenAPI document as a page, by Swagger UI. It works offline: the server serves every file,
 * under exactly the names below, and the page may reach no other host. The URLs are relative, so that they
 * work behind a path prefix.
 */
import { readFile } from 'node:fs/promises'
import type { FastifyInstance, FastifyReply } from 'fastify'
import { SWAGGER_UI_DIRECTORY } from '../swagger-ui-directory.js'

/** How long a browser may keep the files, in seconds. */
const MAX_AGE_S = 3_600

const HTML = 'text/html; charset=utf-8'
const CSS = 'text/css; charset=utf-8'
const JAVASCRIPT = 'text/javascript; charset=utf-8'

// Swagger UI uses data: URLs for its icons, and no inline styles.
const CONTENT_SECURITY_POLICY = [
  "default-src 'self'",
  "img-src 'self' data:",
  "object-src 'none'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ')

const PAGE = `<!doctype html>
<html lang="en">
  <head>
    <meta charset="utf-8">
    <meta name="viewport" content="width=device-width, initial-scale=1">
    <title>EaaS API</title>
    <link rel="icon" href="data:,">
    <link rel="stylesheet" href="docs/swagger-ui.css">
    <link rel="stylesheet" href="docs/page.css">
    <script src="docs/swagger-ui-bundle.js" defer></script>
    <script src="docs/page.js" defer></script>
  </head>
  <body>
    <noscript>This page needs JavaScript. What it shows is in <a href="openapi.json">openapi.json</a>.</noscript>
    <main id="reference"></main>
  </body>
</html>
`

// Fixes what Swagger UI leaves unreadable in dark mode or too wide for a phone, and hides columns and choices
// that are empty here.
const PAGE_CSS = `body { margin: 0; }
html.dark-mode { color-scheme: dark; }
html.dark-mode .swagger-ui .headers .header-col { color: #e4e6e6; }
.swagger-ui .info { margin: 32px 0 16px; }
.swagger-ui .response-col_links, .swagger-ui .servers-title, .swagger-ui .servers { display: none; }
.swagger-ui .headers { table-layout: fixed; width: 100%; }
.swagger-ui .headers .header-col { overflow-wrap: anywhere; vertical-align: top; }
@media (width < 640px) {
  .swagger-ui .wrapper, .swagger-ui .opblock-body .responses-inner { padding: 0 10px; }
  .swagger-ui .opblock-tag { flex-wrap: wrap; }
  .swagger-ui table.responses-table { table-layout: fixed; }
  .swagger-ui .response-col_status { width: 40px; min-width: 0; padding-right: 8px; }
  .swagger-ui .responses-table select { max-width: 100%; }
}
`

const PAGE_SCRIPT = `const dark = matchMedia('(prefers-color-scheme: dark)')
const follow = () => document.documentElement.classList.toggle('dark-mode', dark.matches)
follow()
dark.addEventListener('change', follow)
SwaggerUIBundle({
  url: new URL('openapi.json', location.href).href,
  dom_id: '#reference',
  deepLinking: true,
  defaultModelsExpandDepth: 0,
  displayRequestDuration: true,
  validatorUrl: null, // by default an external host validates the document
})
`

/** Registers the page and its files; each is read once, at its first request. */
export function serveDocs(app: FastifyInstance): void {
  serveFile(app, '/docs', HTML, async () => PAGE)
  serveFile(app, '/docs/page.css', CSS, async () => PAGE_CSS)
  serveFile(app, '/docs/page.js', JAVASCRIPT, async () => PAGE_SCRIPT)
  serveFile(app, '/docs/swagger-ui.css', CSS, () => readSwaggerUi('swagger-ui.css'))
  serveFile(app, '/docs/swagger-ui-bundle.js', JAVASCRIPT, () => readSwaggerUi('swagger-ui-bundle.js'))
}

function serveFile(app: FastifyInstance, url: string, type: string, read: () => Promise<string | Buffer>): void {
  let content: string | Buffer | undefined
  app.get(url, async (_, reply: FastifyReply) => {
    content ??= await read()
    return reply
      .headers({
        'content-security-policy': CONTENT_SECURITY_POLICY,
        'x-content-type-options': 'nosniff',
        'referrer-policy': 'no-referrer',
        'cache-control': `public, max-age=${MAX_AGE_S}`,
      })
      .type(type)
      .send(content)
  })
}

async function readSwaggerUi(name: string): Promise<Buffer> {
  try {
    return await readFile(new URL(name, SWAGGER_UI_DIRECTORY))
  } catch (error) {
    throw new Error(`${name} of Swagger UI is missing: npm run build puts it there`, { cause: error })
  }
}
