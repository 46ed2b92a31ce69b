//! Published figures, shown beside the measured ones: "nginx tempfiles benchmark" by Jiří Setnička
//! and Jan Prachař (2022), which was published with a patch for nginx that lets many clients read one file
//! while it arrives. 100 clients for 30 s, files of 30 MiB, four workers, another machine.

/// One row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Published {
    /// The time in which the origin sends a file.
    pub seconds: f64,
    pub mode: &'static str,
    /// In the order of the study's columns.
    pub figures: [f64; 9],
}

/// The subject of the rows.
pub(crate) const SERVER: &str = "published: nginx";
/// The note below each table with such rows.
pub(crate) const NOTE: &str = "published: nginx-tempfiles-benchmark by Setnička and Prachař, 2022: 30 MiB files, \
                        100 clients for 30 s, four workers, another machine";

/// Returns the rows for an origin time.
#[rustfmt::skip]
pub(crate) const ROWS: [Published; 9] = [
    row(0.0, "plain", [172.0, 5_410_652_160.0, 1426.52, 5707.0, 179_526_696_960.0, 47329.51, 0.309, 0.089, 96.99]),
    row(0.0, "lock", [55.0, 1_730_150_400.0, 455.70, 5181.0, 162_980_167_680.0, 42925.05, 0.341, 0.101, 98.94]),
    row(0.0, "tempfile patch", [60.0, 1_887_436_800.0, 499.12, 5198.0, 163_510_173_227.0, 43237.53, 0.333, 0.093, 98.85]),
    row(1.0, "plain", [917.0, 28_846_325_760.0, 7405.90, 2020.0, 63_543_705_600.0, 16312.78, 0.863, 0.106, 54.60]),
    row(1.0, "lock", [30.0, 943_718_400.0, 242.76, 2929.0, 92_138_373_120.0, 23700.89, 0.973, 0.900, 98.98]),
    row(1.0, "tempfile patch", [30.0, 943_718_400.0, 245.29, 3000.0, 94_371_833_907.0, 24527.75, 0.500, 0.016, 99.00]),
    row(3.0, "plain", [915.0, 28_783_411_200.0, 7026.24, 946.0, 29_758_586_880.0, 7263.74, 1.646, 0.190, 3.28]),
    row(3.0, "lock", [10.0, 314_572_800.0, 81.30, 1000.0, 31_457_280_000.0, 8129.40, 3.004, 2.920, 99.00]),
    row(3.0, "tempfile patch", [10.0, 314_572_800.0, 82.64, 1000.0, 31_457_280_000.0, 8262.88, 1.491, 0.021, 99.00]),
];

const fn row(seconds: f64, mode: &'static str, figures: [f64; 9]) -> Published {
    Published { seconds, mode, figures }
}
