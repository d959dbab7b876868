//! The colours of the report: readable on their ground, and apart for people who see fewer of them.

use std::collections::BTreeMap;

const STYLE: &str = include_str!("../src/report/chart.css");

/// Configurations that share a shape and a dash pattern are so many apart (`svg.rs`).
const SHAPES: usize = 4;
const COLOURS: usize = 12;

/// Linear red, green, blue.
type Rgb = [f64; 3];

#[test]
fn every_colour_is_readable_and_those_of_one_shape_stay_apart() {
    for theme in themes() {
        let ground = theme["--card"];
        let keys: Vec<Rgb> = (0..COLOURS).map(|k| theme[format!("--k{k}").as_str()]).collect();
        for (k, colour) in keys.iter().enumerate() {
            // WCAG 2.2, 1.4.11: parts of graphics.
            assert!(contrast(*colour, ground) >= 3.0, "k{k}: {:.2}", contrast(*colour, ground));
        }
        for (a, b) in (0..COLOURS).flat_map(|a| (0..a).map(move |b| (a, b))) {
            let same_shape = (a - b).is_multiple_of(SHAPES);
            if same_shape {
                let apart = SEEN.iter().map(|m| distance(keys[a], keys[b], m));
                let least = apart.fold(f64::INFINITY, f64::min);
                assert!(least >= 15.0, "k{a} and k{b}: {least:.1}");
            }
        }
        for heat in 0..=4 {
            let ground = theme[format!("--h{heat}").as_str()];
            assert!(contrast(theme["--onheat"], ground) >= 4.5, "h{heat}");
        }
    }
}

/// The custom properties of the light and of the dark theme.
fn themes() -> [BTreeMap<String, Rgb>; 2] {
    let block = |start: &str| {
        let at = STYLE.find(start).expect("the theme is there") + start.len();
        let text = STYLE[at..].split('}').next().expect("it ends");
        let pairs = text.split([';', '{']).filter_map(|p| p.trim().split_once(':'));
        let colours = pairs.filter(|p| p.1.starts_with('#'));
        colours.map(|(name, value)| (name.to_string(), rgb(value))).collect()
    };
    [block(":root{"), block(":root[data-theme=dark]{")]
}

fn rgb(text: &str) -> Rgb {
    let hex = match text.len() {
        4 => text[1..].chars().flat_map(|c| [c, c]).collect(),
        _ => text[1..].to_string(),
    };
    std::array::from_fn(|i| {
        let byte = u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).expect("hexadecimal digits");
        let c = f64::from(byte) / 255.0;
        if c <= 0.04045 { c / 12.92 } else { libm::pow((c + 0.055) / 1.055, 2.4) }
    })
}

fn contrast(a: Rgb, b: Rgb) -> f64 {
    let light = |c: Rgb| 0.2126 * c[0] + 0.7152 * c[1] + 0.0722 * c[2];
    let (a, b) = (light(a), light(b));
    (a.max(b) + 0.05) / (a.min(b) + 0.05)
}

/// Normal sight, and protanopia, deuteranopia, tritanopia (Machado, Oliveira, Fernandes 2009).
const SEEN: [[[f64; 3]; 3]; 4] = [
    [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]],
    [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
    [
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.303900],
    ],
];

/// Distance of two colours in CIE Lab (1976) as somebody sees them.
fn distance(a: Rgb, b: Rgb, seen: &[[f64; 3]; 3]) -> f64 {
    let lab = |c: Rgb| -> [f64; 3] {
        let dot = |m: &[f64; 3], v: &Rgb| m[0] * v[0] + m[1] * v[1] + m[2] * v[2];
        let v: Rgb = std::array::from_fn(|i| dot(&seen[i], &c).clamp(0.0, 1.0));
        let f = |t: f64| if t > 0.008856 { libm::cbrt(t) } else { 7.787 * t + 16.0 / 116.0 };
        let x = f(dot(&[0.4124, 0.3576, 0.1805], &v) / 0.9505);
        let y = f(dot(&[0.2126, 0.7152, 0.0722], &v));
        let z = f(dot(&[0.0193, 0.1192, 0.9505], &v) / 1.089);
        [116.0 * y - 16.0, 500.0 * (x - y), 200.0 * (y - z)]
    };
    let (a, b) = (lab(a), lab(b));
    a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum::<f64>().sqrt()
}
