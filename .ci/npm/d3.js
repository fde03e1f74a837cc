// Input of `npm run build`: what the charts need of D3 (ISC licence, see D3_LICENSE).
export { scaleLinear } from "d3-scale";
export { line } from "d3-shape";
