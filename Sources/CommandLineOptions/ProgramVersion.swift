// The version that programs print.

/// The version of this package's programs.
public enum ProgramVersion {
    public static let text = "0.1.0"
}
