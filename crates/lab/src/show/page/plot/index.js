export { barX, dot, line, plot } from "@observablehq/plot";
