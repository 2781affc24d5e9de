/** Where the build puts Swagger UI: this module stays directly under `src/` and `dist/`, so that both find it in `dist/`. */
export const SWAGGER_UI_DIRECTORY = new URL('../dist/swagger-ui/', import.meta.url)
